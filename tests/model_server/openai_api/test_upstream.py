"""The engine behind an endpoint is started again as another checkpoint under the same name, by real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, call

pytest.importorskip("openai")
from helpers.openai_endpoint import Endpoint, backend, completion, request

from model_server.openai_api import upstream

_ENGINE = {"owned_by": "vllm", "root": "/models/first"}


async def info_of(server: Any) -> model.GetModelInfoResponse:
    info: model.GetModelInfoResponse = await call(server.stub.GetModelInfo, model.GetModelInfoRequest(), timeout=5)
    return info


async def test_an_engine_started_again_as_another_answers_nothing(
    endpoint: Endpoint, served: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_AGAIN_SECONDS", 0.05)
    endpoint.card |= _ENGINE
    endpoint.version = "0.9.1"
    async with served(backend(endpoint)) as server:
        assert (await info_of(server)).model_revision == "/models/first, 0.9.1 (vllm)"
        reply = await server.send(request(ask("?")))
        assert reply.served_by.endpoint_model == "m"
        for changed in ({"root": "/models/second"}, {}):
            endpoint.card |= changed
            endpoint.version = "0.9.2"
            endpoint.hang_up()
            await asyncio.sleep(0.05)
            code, reason = await refusal(server.send(request(ask("?"))))
            assert (code, reason) == ("UNAVAILABLE", "identity_changed")
            with pytest.raises(CallError, match=r"the endpoint serves /models/\w+, 0.9.2 \(vllm\) now, and served"):
                await info_of(server)
            endpoint.card |= _ENGINE
            endpoint.version = "0.9.1"
            async with asyncio.timeout(20):
                while True:
                    try:
                        await info_of(server)
                        break
                    except CallError:
                        await asyncio.sleep(0.02)
            await server.send(request(ask("?")))


async def test_engines_that_share_the_calls_are_met_by_looks(
    endpoint: Endpoint, served: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_LOOK_SHARE", 1.0)
    endpoint.card |= _ENGINE
    async with served(backend(endpoint)) as server:
        await server.send(request(ask("?")))
        endpoint.card["root"] = "/models/second"  # on the same connection, as behind a proxy
        assert (await refusal(server.send(request(ask("?")))))[1] == "identity_changed"


async def test_a_vendor_has_no_revision_and_names_who_answered(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.answer = lambda _: completion("x", model="m-2025-01-01", system_fingerprint="fp_1")
    async with served(backend(endpoint)) as server:
        assert (await info_of(server)).model_revision == ""
        served_by = (await server.send(request(ask("?")))).served_by
        assert (served_by.endpoint_model, served_by.endpoint_fingerprint) == ("m-2025-01-01", "fp_1")
        assert served_by.boot_id
