"""Calls made together and by themselves, as the checks of Batch make them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal, cast

import grpc
from google.protobuf.message import Message

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.conformance.server import PATIENT, Server
from orchestrator.engine.batch import Ending, answers_of
from orchestrator.engine.wire import Request, Response


def call_of(request: Message) -> model.BatchCall:
    """Returns a request of Generate or Likelihood as a call of a Batch."""
    if isinstance(request, model.LikelihoodRequest):
        return model.BatchCall(likelihood=request)
    return model.BatchCall(generate=cast(model.GenerateRequest, request))


async def send_batch(server: Server, calls: Sequence[model.BatchCall], *, timeout: float | None = None) -> list[Ending]:
    """Makes a Batch; its own status stands for the calls without a result."""
    requests = [Request(_method(call), ()) for call in calls]
    found: dict[int, Ending] = {}
    end = CallError(grpc.StatusCode.INTERNAL, "batch_incomplete", "the Batch ended without a result for it")
    try:
        async for response in server.batch(calls, timeout=timeout):
            for came in answers_of(response, requests):
                found.setdefault(*came)
    except CallError as error:
        end = error
    return [found.get(place, end) for place in range(len(calls))]


async def settled(server: Server, calls: Sequence[model.BatchCall]) -> list[Ending]:
    """Makes a Batch, and another of the calls that met a full queue, as a client does."""
    until = time.monotonic() + server.timeout
    endings = await send_batch(server, calls)
    while again := [place for place, ending in enumerate(endings) if _full(ending)]:
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.1)
        for place, ending in zip(again, await send_batch(server, [calls[place] for place in again]), strict=True):
            endings[place] = ending
    return endings


async def by_itself(server: Server, call: model.BatchCall) -> Ending:
    """Makes a call by itself; a full queue is asked again."""
    try:
        return await server.patiently(lambda: _response(server, call))
    except CallError as error:
        return error


async def once(server: Server, call: model.BatchCall) -> Ending:
    """Makes a call by itself."""
    try:
        return await _response(server, call)
    except CallError as error:
        return error


async def indices(server: Server, calls: Sequence[model.BatchCall]) -> list[int]:
    """The indices of all results of a Batch; a full queue is asked again, as a client does."""

    async def ask() -> list[int]:
        return [result.index async for response in server.batch(calls) for result in response.results]

    return await server.patiently(ask)


async def _response(server: Server, call: model.BatchCall) -> Response:
    method = _method(call)
    return cast(Response, await server.call(method, getattr(call, method.lower())))


def _method(call: model.BatchCall) -> Literal["Generate", "Likelihood"]:
    return "Likelihood" if call.HasField("likelihood") else "Generate"


def _full(ending: Ending) -> bool:
    return isinstance(ending, CallError) and ending.code in PATIENT
