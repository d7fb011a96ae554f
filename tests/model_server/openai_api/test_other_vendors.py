"""Vendors with an API of their own, by litellm: fakes of Anthropic's and Gemini's answer the library itself.

Their replies are held against the vendors' published types where the SDKs are installed: `anthropic.types.Message` and
`google.genai.types.GenerateContentResponse`.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from model_server.backend import LoadError
from model_server.metrics import Metrics

pytest.importorskip("litellm")
pytest.importorskip("openai")
from helpers.openai_endpoint import request

from model_server.openai_api.client import Settings
from model_server.openai_api.other_vendors import LiteLLMBackend

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "thinking", "thinking": "Looked.", "signature": "x"}, {"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 12,
        "output_tokens": 7,
        "cache_read_input_tokens": 2,
        "cache_creation_input_tokens": 0,
    },
}
CONTENT = {
    "candidates": [{"content": {"parts": [{"text": "Yes."}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {
        "promptTokenCount": 10,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 17,
    },
    "modelVersion": "gemini",
}


class Vendors:
    """Anthropic's Messages API and Gemini's generateContent."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.failure: tuple[int, dict[str, Any]] | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(await request.json())
        if self.failure:
            return web.json_response(self.failure[1], status=self.failure[0])
        return web.json_response(MESSAGE if request.path.endswith("/messages") else CONTENT)


@asynccontextmanager
async def vendors() -> AsyncIterator[Vendors]:
    upstream, app = Vendors(), web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", upstream.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield upstream
    await runner.cleanup()


def backend(upstream: Vendors, name: str, **settings: Any) -> LiteLLMBackend:
    return LiteLLMBackend(Settings(model=name, base_url=upstream.url, retries=0, **settings), Metrics())


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sesame")


@pytest.mark.parametrize(
    ("module", "name", "reply"),
    [("anthropic.types", "Message", MESSAGE), ("google.genai.types", "GenerateContentResponse", CONTENT)],
)
def test_the_fakes_reply_as_the_published_types_say(module: str, name: str, reply: dict[str, Any]) -> None:
    try:
        types = importlib.import_module(module)
    except ImportError:
        pytest.skip(f"{module} is not installed")
    getattr(types, name).model_validate(reply)


async def test_images_reasoning_and_usage_are_mapped(served: Any, ask: Any, picture: Any) -> None:
    async with vendors() as upstream:
        async with served(backend(upstream, "anthropic/claude-sonnet-4-5")) as server:
            reply = await server.send(request(ask(picture(1), "Is it?"), max_output_tokens=50))
        kinds = [part["type"] for part in upstream.seen[0]["messages"][0]["content"]]
        assert kinds == ["image", "text"]
        assert (reply.parts[0].text, reply.reasoning) == ("Yes.", "Looked.")
        assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (14, 7, 2)
        assert reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        async with served(backend(upstream, "gemini/gemini-2.5-flash")) as server:
            reply = await server.send(request(ask(picture(1), "Is it?"), max_output_tokens=50))
        assert (reply.parts[0].text, reply.usage.input_tokens, reply.usage.reasoning_tokens) == ("Yes.", 10, 5)


async def test_failures_keep_their_meaning(served: Any, ask: Any) -> None:
    async with vendors() as upstream:
        async with served(backend(upstream, "anthropic/claude-sonnet-4-5")) as server:
            for status, kind, message, expected in (
                (429, "rate_limit_error", "slow down", "RESOURCE_EXHAUSTED"),
                (401, "authentication_error", "invalid x-api-key", "UNAUTHENTICATED"),
                (529, "overloaded_error", "Overloaded", "UNAVAILABLE"),
            ):
                upstream.failure = status, {"type": "error", "error": {"type": kind, "message": message}}
                assert (await refusal(server.send(request(ask("?")))))[0] == expected
            deprecated = "`temperature` is deprecated for this model."
            upstream.failure = 400, {"type": "error", "error": {"type": "invalid_request_error", "message": deprecated}}
            with pytest.raises(CallError, match="leave-out=temperature"):
                await server.send(request(ask("?"), temperature=0.0))


def test_a_name_without_its_vendor_and_a_key_that_is_missing_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoadError, match="give PROVIDER/MODEL"):
        LiteLLMBackend(Settings(model="claudia"), Metrics()).load()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(LoadError, match="set ANTHROPIC_API_KEY, or --api-key-file"):
        LiteLLMBackend(Settings(model="anthropic/claude-sonnet-4-5"), Metrics()).load()
