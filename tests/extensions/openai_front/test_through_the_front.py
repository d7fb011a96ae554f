"""The conformance kit through HTTP: gRPC, our `openai` backend, the front, and a whole gRPC server behind it."""

from __future__ import annotations

import asyncio
import socket

import pytest
from helpers.conformance_mutants import Whole, served

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import PLAIN, Server, ServerConfig, call, dial
from model_server.core import Core
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer
from orchestrator.conformance.check import Status
from orchestrator.conformance.runner import judge

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("openai")

from lyncean_openai_front.app import Front  # noqa: E402
from lyncean_openai_front.serve import settings  # noqa: E402
from model_server.openai_api.backend import OpenAIBackend  # noqa: E402
from model_server.openai_api.client import Settings  # noqa: E402

UNCLAIMED = {"LIKELIHOOD", "SEED", "THINKING", "THINKING_BUDGET", "RAW_PROMPT", "ANSWER_PREFIX", "RENDERED_PROMPT"}
"""Capabilities of the server that the chain does not claim, since an OpenAI client cannot rely on them."""
UNSAID = {"unset_is_not_zero", "stop_strings_end_the_output"}
"""Checks of what a chat completion cannot say: the temperature in force, and whether a stop string ended an output."""


@pytest.mark.full
async def test_a_whole_server_behind_http_fails_what_http_cannot_say() -> None:
    async with served(Whole) as address:
        channel = dial(address)
        stub = model_grpc.ModelServiceStub(channel)
        name = (await call(stub.GetModelInfo, model.GetModelInfoRequest(), timeout=20)).model_name
        http = uvicorn.Server(settings(Front(stub, PLAIN, 60), ServerConfig(grace=1)))
        listening = socket.create_server(("127.0.0.1", 0))
        running = asyncio.ensure_future(http._serve([listening]))
        backend = OpenAIBackend(
            Settings(model=name, base_url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1", retries=0), Metrics()
        )
        await asyncio.to_thread(backend.load)
        core = Core(backend)
        core.ready()
        servicer = ModelServicer(core, Metrics())
        proxy = Server(
            ServerConfig(grace=1), NAME, lambda s: model_grpc.add_ModelServiceServicer_to_server(servicer, s)
        )
        port = await proxy.start()
        await proxy.set_serving()
        try:
            results = {r.check.name: r async for r in judge(f"127.0.0.1:{port}", timeout=20)}
            claimed = {
                model.Capability.Name(capability).removeprefix("CAPABILITY_") for capability in core.info().capabilities
            }
        finally:
            await proxy.stop()
            await backend.close()
            http.should_exit = True
            await running
            await channel.close()
    failed = {name: r.detail for name, r in results.items() if r.status is Status.FAILED}
    assert failed.keys() == UNSAID, failed
    assert not claimed & UNCLAIMED
    passed = {name for name, r in results.items() if r.status is Status.PASSED}
    assert len(passed) >= 30, sorted(results.keys() - passed)
