"""An OpenAI-compatible HTTP server for tests, and the backend before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from lyncean.model.v1 import model_pb2 as model
from model_server.metrics import Metrics
from model_server.openai_api.backend import OpenAIBackend
from model_server.openai_api.client import Settings

Reply = Callable[[dict[str, Any]], Any]


class Endpoint:
    """An OpenAI-compatible server; `replies` are used up first, then `answer` is asked."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str] = []
        self.replies: list[Any] = []
        self.card: dict[str, Any] = {"id": "m", "object": "model", "created": 0, "owned_by": "someone"}
        self.answer: Reply = lambda body: completion("fine")
        self.listing: Callable[[], web.Response] = lambda: web.json_response({"object": "list", "data": [self.card]})
        self.version = ""
        self.url = ""
        self.hang_up: Callable[[], None] = lambda: None
        """Ends all connections, as an engine that is started again does."""

    async def says_version(self, request: web.Request) -> web.Response:
        """vLLM's route."""
        return web.json_response({"version": self.version}) if self.version else web.json_response({}, status=404)

    async def models(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") == "Bearer wrong":
            return error(401, "Incorrect API key provided", "invalid_api_key")
        return self.listing()

    async def images(self, request: web.Request) -> Any:
        """Generations and edits: the form's files are in "image" as bytes, by name."""
        if request.content_type == "application/json":
            body = await request.json()
        else:
            form = await request.post()
            body = {name: value for name, value in form.items() if isinstance(value, str)}
            files = [value for value in form.values() if isinstance(value, web.FileField)]
            body["image"] = [(file.filename, file.content_type, file.file.read()) for file in files]
        return await self._reply(body, request)

    async def chat(self, request: web.Request) -> Any:
        return await self._reply(await request.json(), request)

    async def detokenize(self, request: web.Request) -> web.Response:
        """vLLM's route: here a token's text is its number."""
        numbers = (await request.json())["tokens"]
        return web.json_response({"prompt": " ".join(map(str, numbers))})

    async def _reply(self, body: dict[str, Any], request: web.Request) -> Any:
        self.seen.append(body)
        self.paths.append(request.path)
        self.keys.append(request.headers.get("authorization", ""))
        reply = self.replies.pop(0) if self.replies else self.answer(body)
        reply = reply(body) if callable(reply) else reply
        if asyncio.iscoroutine(reply):
            reply = await reply
        return reply if isinstance(reply, web.StreamResponse) else web.json_response(reply)


def completion(text: Any, finish: str = "stop", **extra: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}, "logprobs": None}
    choice |= extra.pop("choice", {})
    usage = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    } | extra


def error(status: int, message: str, code: str | None = None, **headers: str) -> web.Response:
    body = {"error": {"message": message, "type": "t", "param": None, "code": code}}
    return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def endpoint_server() -> AsyncIterator[Endpoint]:
    """Serves one on loopback."""
    endpoint = Endpoint()
    app = web.Application(client_max_size=2**26)
    app.router.add_get("/v1/models", endpoint.models)
    for path in ("chat/completions", "responses"):
        app.router.add_post(f"/v1/{path}", endpoint.chat)
    app.router.add_post("/detokenize", endpoint.detokenize)
    app.router.add_get("/version", endpoint.says_version)
    for path in ("images/generations", "images/edits"):
        app.router.add_post(f"/v1/{path}", endpoint.images)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    loop, http = asyncio.get_running_loop(), runner.server
    assert http

    def hang_up() -> None:
        for connection in http.connections:
            connection.force_close()
            if connection.transport:
                connection.transport.close()

    endpoint.hang_up = lambda: loop.call_soon_threadsafe(hang_up) and None
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield endpoint
    await runner.cleanup()


def backend(endpoint: Endpoint, **kwargs: Any) -> OpenAIBackend:
    settings = {"model": "m", "base_url": endpoint.url, "retries": 2, "patience": 0.0} | kwargs
    return OpenAIBackend(Settings(**settings), Metrics())


def request(message: model.Message, **config: Any) -> model.GenerateRequest:
    return model.GenerateRequest(messages=[message], config=model.GenerationConfig(**config))


@contextmanager
def endpoint_thread() -> Iterator[Endpoint]:
    """Serves one on loopback in a thread of its own, for commands that run in the test's thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    served = endpoint_server()
    try:
        yield asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result()
        asyncio.run_coroutine_threadsafe(served.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
