"""The front's routes: token, size limit and disconnects; each request is calls of one ModelService."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lyncean.model.v1 import model_pb2 as model
from lyncean.model.v1 import model_pb2_grpc as model_grpc
from lyncean.rpc import MAX_MESSAGE_BYTES, CallError, Credentials, call
from model_server.http.chat import completion, events, parse, refuse, requests
from model_server.http.errors import BodyTooLarge, error_response

log = logging.getLogger(__name__)
MAX_BODY_BYTES = MAX_MESSAGE_BYTES * 4 // 3 + 1_000_000
"""Largest body: a message of the largest size with its images in base64."""
_INFO_TIMEOUT = 20.0
_NO_COMPLETIONS = (
    "/v1/completions continues a raw prompt, and ModelService takes conversations that the model's own chat template "
    "renders: it has no raw prompts, no token ids and no log-probabilities of a prompt (echo). Use "
    "/v1/chat/completions, or ModelService's Likelihood over gRPC for log-likelihoods"
)


class Front:
    """The routes before one ModelService.

    Args:
        channel: A channel to it.
        credentials: What calls of it carry.
        timeout: Seconds for one call.
        token: Bearer token that requests must carry; None asks for none.
    """

    def __init__(
        self, channel: grpc.aio.Channel, credentials: Credentials, timeout: float, token: str | None = None
    ) -> None:
        self._stub: Any = model_grpc.ModelServiceStub(channel)
        self._metadata = credentials.metadata
        self._timeout = timeout
        self._expected = f"Bearer {token}".encode() if token else None
        self._cached: model.GetModelInfoResponse | None = None

    def app(self) -> Starlette:
        """Returns the ASGI application."""
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._guarded(self._models)),
                Route("/v1/chat/completions", self._guarded(self._chat), methods=["POST"]),
                Route("/v1/completions", self._guarded(self._completions), methods=["POST"]),
            ]
        )

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Returns a handler whose failures are OpenAI-style errors, and which asks for the token first."""

        async def guarded(request: Request) -> Response:
            try:
                given = request.headers.get("authorization", "").encode("latin-1")
                if self._expected and not hmac.compare_digest(given, self._expected):
                    raise refuse("bad_token", "the bearer token is missing or wrong", grpc.StatusCode.UNAUTHENTICATED)
                return await handler(request)
            except CallError as error:
                return error_response(error)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:
                log.exception("a request failed")
                failure = f"{type(error).__name__} in the server; its log has the traceback"
                return error_response(refuse("internal_error", failure, grpc.StatusCode.INTERNAL))

        return guarded

    async def _health(self, request: Request) -> Response:
        """Says without a token, and without a reason, whether the model server answers."""
        try:
            await self._info(fresh=True)
        except CallError:
            return Response(status_code=503)
        return Response()

    async def _models(self, request: Request) -> Response:
        info = await self._info(fresh=True)
        card = {"id": info.model_name, "object": "model", "created": 0, "owned_by": "lyncean"}
        if info.max_context_tokens:
            card["max_model_len"] = info.max_context_tokens
        return JSONResponse({"object": "list", "data": [card]})

    async def _completions(self, request: Request) -> Response:
        raise refuse("no_completions", _NO_COMPLETIONS, grpc.StatusCode.UNIMPLEMENTED)

    async def _chat(self, request: Request) -> Response:
        body = await _body(request)
        chat = await asyncio.to_thread(parse, body)
        info = await self._info()
        if chat.model != info.model_name:
            raise refuse("model_not_found", f"this server serves {info.model_name!r}", grpc.StatusCode.NOT_FOUND)
        calls = await asyncio.to_thread(requests, chat)
        answers = await _unless_gone(request, self._generate(calls, info))
        await self._check_identity(answers, chat.model)
        whole = completion(chat, answers)
        if chat.stream:
            return Response(b"".join(events(chat, whole)), media_type="text/event-stream")
        return JSONResponse(whole)

    async def _generate(
        self, calls: list[model.GenerateRequest], info: model.GetModelInfoResponse
    ) -> list[model.GenerateResponse]:
        async with contextlib.AsyncExitStack() as stack:
            tasks = [
                asyncio.ensure_future(
                    call(
                        self._stub.Generate,
                        each,
                        timeout=self._timeout,
                        metadata=self._metadata,
                        max_bytes=info.max_request_bytes,
                    )
                )
                for each in calls
            ]
            for task in tasks:  # after a failure nobody wants the others' answers
                stack.callback(task.cancel)
            answers: list[model.GenerateResponse] = await asyncio.gather(*tasks)
        return answers

    async def _info(self, *, fresh: bool = False) -> model.GetModelInfoResponse:
        if self._cached is not None and not fresh:
            return self._cached
        info: model.GetModelInfoResponse = await call(
            self._stub.GetModelInfo, model.GetModelInfoRequest(), timeout=_INFO_TIMEOUT, metadata=self._metadata
        )
        self._cached = info
        return info

    async def _check_identity(self, answers: list[model.GenerateResponse], name: str) -> None:
        """Raises CallError if another model has answered: the server may have been started anew."""
        info = await self._info()
        if any(answer.served_by.boot_id != info.boot_id for answer in answers):
            info = await self._info(fresh=True)
        if info.model_name != name:
            raise refuse("model_changed", "the model server was replaced: ask again", grpc.StatusCode.UNAVAILABLE)


async def _body(request: Request) -> bytes:
    """Reads the body, as far as the limit."""
    stated = request.headers.get("content-length", "")
    body = bytearray()
    if not (stated.isdecimal() and int(stated[:20]) > MAX_BODY_BYTES):
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                break
        else:
            return bytes(body)
    raise BodyTooLarge(
        grpc.StatusCode.INVALID_ARGUMENT, "request_too_large", f"the body is beyond {MAX_BODY_BYTES:,} bytes"
    )


async def _unless_gone(request: Request, work: Awaitable[list[model.GenerateResponse]]) -> list[model.GenerateResponse]:
    """Returns the answers; a client that disconnects cancels the calls."""
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
