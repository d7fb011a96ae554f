"""Servers on loopback, pictures and tiny checkpoints for the model server's tests."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from PIL import Image

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, Server, ServerConfig, call, dial
from model_server.backend import Backend
from model_server.core import Core
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer


@dataclass
class Served:
    """A server that answers."""

    stub: Any
    channel: grpc.aio.Channel
    core: Core
    server: Server
    port: int

    async def info(self) -> model.GetModelInfoResponse:
        """Describes the model."""
        info: model.GetModelInfoResponse = await call(self.stub.GetModelInfo, model.GetModelInfoRequest(), timeout=300)
        return info

    async def generate(self, message: model.Message, **config: Any) -> model.GenerateResponse:
        """Continues one message."""
        request = model.GenerateRequest(messages=[message], config=model.GenerationConfig(**config))
        response: model.GenerateResponse = await self.send(request)
        return response

    async def score(
        self, message: model.Message, continuations: Sequence[str], **more: Any
    ) -> model.LikelihoodResponse:
        """Scores continuations of one message."""
        request = model.LikelihoodRequest(messages=[message], continuations=continuations, **more)
        response: model.LikelihoodResponse = await self.send(request)
        return response

    async def send(self, request: model.GenerateRequest | model.LikelihoodRequest) -> Any:
        """Makes the call that a request belongs to."""
        likelihood = isinstance(request, model.LikelihoodRequest)
        return await call(self.stub.Likelihood if likelihood else self.stub.Generate, request, timeout=300)


async def refusal(attempt: Awaitable[object]) -> tuple[str, str]:
    """Returns status and reason of a call that must fail."""
    with pytest.raises(CallError) as caught:
        await attempt
    return caught.value.code.name, caught.value.reason


@asynccontextmanager
async def serve(backend: Backend, *, metrics: Metrics | None = None, load: bool = True) -> AsyncIterator[Served]:
    """Serves a backend over real gRPC: `async with serve(backend) as s: await s.stub.Generate(...)`."""
    core = Core(backend)
    servicer = ModelServicer(core, metrics or Metrics())
    server = Server(ServerConfig(grace=5.0), NAME, lambda s: model_grpc.add_ModelServiceServicer_to_server(servicer, s))
    port = await server.start()
    if load:
        await asyncio.to_thread(backend.load)
        core.ready()
        await server.set_serving()
    channel = dial(f"127.0.0.1:{port}")
    try:
        yield Served(model_grpc.ModelServiceStub(channel), channel, core, server, port)
    finally:
        await channel.close()
        await server.stop()
        await backend.close()


@pytest.fixture
def served() -> Callable[..., AbstractAsyncContextManager[Served]]:
    """The function `serve`."""
    return serve


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """An OpenAI-compatible server, see `openai_endpoint`."""
    from helpers.openai_endpoint import endpoint_server

    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    async with endpoint_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder of a kind's tiny checkpoint, written once a session."""
    root = tmp_path_factory.mktemp("tiny")

    def get(kind: str) -> Path:
        from helpers import tiny

        return tiny.build(kind, root / kind)

    return get


@pytest.fixture
def hf(checkpoint_folder: Callable[[str], Path]) -> Callable[..., Any]:
    """Builds the `transformers` backend over a kind's tiny checkpoint: `hf("llava", max_batch=1)`."""

    def make(kind: str, metrics: Metrics | None = None, **kwargs: Any) -> Any:
        from model_server.hf.backend import HfBackend
        from model_server.hf.settings import Settings

        kwargs.setdefault("model", kind and str(checkpoint_folder(kind)))
        return HfBackend(Settings(**kwargs), metrics or Metrics())

    return make


def picture(seed: int = 0, size: tuple[int, int] = (48, 36), form: str = "PNG") -> bytes:
    """A coarse coloured pattern, encoded."""
    generator = __import__("random").Random(seed)
    small = Image.new("RGB", (6, 4))
    small.putdata([tuple(generator.randrange(256) for _ in range(3)) for _ in range(24)])
    buffer = io.BytesIO()
    small.resize(size, Image.Resampling.NEAREST).save(buffer, form)
    return buffer.getvalue()


@pytest.fixture(name="picture", scope="session")
def picture_fixture() -> Callable[..., bytes]:
    """The function `picture`."""
    return picture


@pytest.fixture(scope="session")
def ask() -> Callable[..., model.Message]:
    """Builds a user's message of texts and images: `ask("What?", image_bytes)`."""

    def make(*parts: str | bytes) -> model.Message:
        message = model.Message(role=model.ROLE_USER)
        for part in parts:
            if isinstance(part, str):
                message.parts.add(text=part)
            else:
                message.parts.add(image=model.Image(data=part))
        return message

    return make
