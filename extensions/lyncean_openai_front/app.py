"""The front's routes: token, size limit and disconnects; each request is calls of one ModelService."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import grpc
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import MAX_MESSAGE_BYTES, CallError, Credentials, call
from lyncean_openai_front import chat, completions, responses
from lyncean_openai_front.answer import apart
from lyncean_openai_front.batches import Batches
from lyncean_openai_front.body import read, too_large
from lyncean_openai_front.completions import Answers, Calls
from lyncean_openai_front.errors import failure_response, refuse
from lyncean_openai_front.forms import Chat, Completion, parse
from lyncean_openai_front.responses import Responses
from lyncean_openai_front.share import IN_BATCH, Share

Each = TypeVar("Each")
_Form = TypeVar("_Form", Chat, Completion, Responses)
_Answer = tuple[Any, dict[str, Any]]  # the request as it was read, and the whole answer
MAX_BODY_BYTES = MAX_MESSAGE_BYTES * 4 // 3 + 1_000_000
"""Largest body: a message of the largest size with its images in base64."""
_INFO_TIMEOUT = 20.0


class Front:
    """The routes before one ModelService.

    Args:
        stub: Calls it: of a channel, or a `LocalStub`.
        credentials: What calls of it carry.
        timeout: Seconds for one call.
        token: Bearer token that requests must carry; None asks for none.
    """

    def __init__(self, stub: Any, credentials: Credentials, timeout: float, token: str | None = None) -> None:
        self._stub = stub
        self._metadata = credentials.metadata
        self._timeout = timeout
        self._expected = f"Bearer {token}".encode() if token else None
        self._cached: model.GetModelInfoResponse | None = None
        self._share = Share()

    def app(self) -> Starlette:
        """Returns the ASGI application."""
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._guarded(self._models)),
                Route("/v1/models/{name:path}", self._guarded(self._model)),
                Route("/v1/chat/completions", self._live(self._chat, chat.events), methods=["POST"]),
                Route("/v1/responses", self._live(self._responses, responses.events), methods=["POST"]),
                Route("/v1/completions", self._live(self._completions, completions.events), methods=["POST"]),
                *Batches(self._in_batch, self._width).routes(self._guarded),
            ]
        )

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Returns a handler whose failures are OpenAI-style errors, and which asks for the token first."""

        async def guarded(request: Request) -> Response:
            try:
                authorization = request.headers.get("authorization", "").encode("latin-1")
                if self._expected and not hmac.compare_digest(authorization, self._expected):
                    raise refuse("bad_token", "the bearer token is missing or wrong", grpc.StatusCode.UNAUTHENTICATED)
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:
                return failure_response(error)

        return guarded

    async def _health(self, request: Request) -> Response:
        """Says without a token, and without a reason, whether the model server answers."""
        try:
            await self._info(fresh=True)
        except CallError:
            return Response(status_code=503)
        return Response()

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [await self._card()]})

    async def _model(self, request: Request) -> Response:
        card = await self._card()
        if request.path_params["name"] != card["id"]:
            raise _not_found(card["id"])
        return JSONResponse(card)

    async def _card(self) -> dict[str, Any]:
        info = await self._info(fresh=True)
        card = {"id": info.model_name, "object": "model", "created": 0, "owned_by": "lyncean"}
        if info.max_context_tokens:
            card["max_model_len"] = info.max_context_tokens
        return card

    def _live(self, answer: Callable[[bytes], Awaitable[_Answer]], events: Callable[..., list[bytes]]) -> Any:
        """Returns the guarded handler of an endpoint; a client that disconnects cancels the calls."""

        async def handler(request: Request) -> Response:
            form, response = await _unless_gone(request, answer(await read(request, MAX_BODY_BYTES)))
            if form.stream:
                return Response(b"".join(events(form, response)), media_type="text/event-stream")
            return JSONResponse(response)

        return self._guarded(handler)

    async def _in_batch(self, url: str, body: bytes) -> dict[str, Any]:
        """Answers one line of a batch."""
        if len(body) > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        _, response = await (self._chat if url == "/v1/chat/completions" else self._completions)(body)
        return response

    async def _width(self) -> int:
        return (await self._info()).max_concurrency // 2

    async def _parsed(self, body: bytes, kind: type[_Form]) -> tuple[_Form, model.GetModelInfoResponse]:
        form = await asyncio.to_thread(parse, body, kind)
        if form.stream and IN_BATCH.get():
            raise refuse("bad_field", "stream: a batch has no streams")
        return form, await self._info_of(form.model)

    async def _completions(self, body: bytes) -> _Answer:
        form, info = await self._parsed(body, Completion)
        prompts = completions.calls(form, info.capabilities)
        answers = await self._all([self._complete(prompt, info) for prompt in prompts])
        identities = [answer.score.served_by for answer in answers if answer.score]
        identities += [generated.served_by for answer in answers for generated in answer.generated]
        await self._check_identity(identities, form.model)
        return form, completions.completion_of(form, prompts, answers)

    async def _complete(self, prompt: Calls, info: model.GetModelInfoResponse) -> Answers:
        score = [self._call(self._stub.Likelihood, prompt.score, info)] if prompt.score else []
        generate = (self._call(self._stub.Generate, request, info) for request in prompt.generate)
        replies = await self._all([*score, *generate])
        return Answers(replies[0] if score else None, replies[len(score) :])

    async def _chat(self, body: bytes) -> _Answer:
        form, info = await self._parsed(body, Chat)
        return form, chat.completion(form, await self._generated(form, info))

    async def _responses(self, body: bytes) -> _Answer:
        form, info = await self._parsed(body, Responses)
        chat = await asyncio.to_thread(responses.as_chat, form)
        (answer,) = await self._generated(chat, info)
        return form, responses.response(form, answer)

    async def _generated(self, form: Chat, info: model.GetModelInfoResponse) -> list[model.GenerateResponse]:
        """Returns an answer for each choice."""
        calls = await asyncio.to_thread(chat.requests, form, info)
        replies = await self._all([self._call(self._stub.Generate, call, info) for call in calls])
        answers = [answer for reply in replies for answer in apart(reply)]
        await self._check_identity([answer.served_by for answer in answers], form.model)
        return answers

    async def _call(self, method: Any, request: Any, info: model.GetModelInfoResponse) -> Any:
        await self._share.free(info.max_concurrency)
        with self._share.taken():
            return await call(
                method, request, timeout=self._timeout, metadata=self._metadata, max_bytes=info.max_request_bytes
            )

    async def _all(self, calls: Sequence[Coroutine[Any, Any, Each]]) -> list[Each]:
        async with contextlib.AsyncExitStack() as stack:
            tasks = [asyncio.ensure_future(work) for work in calls]
            for task in tasks:  # after a failure nobody wants the others' answers
                stack.callback(task.cancel)
            return await asyncio.gather(*tasks)

    async def _info_of(self, name: str) -> model.GetModelInfoResponse:
        info = await self._info()
        if name != info.model_name:
            raise _not_found(info.model_name)
        return info

    async def _info(self, *, fresh: bool = False) -> model.GetModelInfoResponse:
        if self._cached is not None and not fresh:
            return self._cached
        info: model.GetModelInfoResponse = await call(
            self._stub.GetModelInfo, model.GetModelInfoRequest(), timeout=_INFO_TIMEOUT, metadata=self._metadata
        )
        self._cached = info
        return info

    async def _check_identity(self, answers: Sequence[model.ServedBy], name: str) -> None:
        """Raises CallError if another model has answered: the server may have been started anew."""
        info = await self._info()
        if any(answer.boot_id != info.boot_id for answer in answers):
            info = await self._info(fresh=True)
        if info.model_name != name:
            raise refuse("model_changed", "the model server was replaced: ask again", grpc.StatusCode.UNAVAILABLE)


def _not_found(name: str) -> CallError:
    return refuse("model_not_found", f"this server serves {name!r}", grpc.StatusCode.NOT_FOUND)


async def _unless_gone(request: Request, work: Awaitable[Each]) -> Each:
    """Returns the answer; a client that disconnects cancels the calls."""
    answering = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
