"""The scorer within this process: for runs so small that a process and a wire of its own cost more than its work."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc

import orchestrator
from lyncean.rpc import CallError, status_of, status_proto

MOST_ITEMS = 20_000
"""Items of a run that is scored here. More are worth another core, and their summary another process's memory."""
_MODULE = "scorer.service"


class LocalChannel:
    """A channel to a servicer in this event loop, as far as a client of the scorer uses it; nothing is serialized.

    Args:
        servicer: Answers the calls; what it raises becomes the status that its server would send.
    """

    def __init__(self, servicer: Any) -> None:
        self._servicer = servicer

    def unary_unary(self, path: str, *_: object) -> Callable[..., Awaitable[Any]]:
        """Returns a unary method."""
        method = getattr(self._servicer, path.rpartition("/")[2])

        async def call(request: Any, **_: object) -> Any:
            try:
                return await method(request, None)
            except Exception as error:
                raise _failure(error) from error

        return call

    def stream_stream(self, path: str, *_: object) -> Callable[..., LocalStream]:
        """Returns a method of two streams."""
        method = getattr(self._servicer, path.rpartition("/")[2])
        return lambda requests=None, **_: LocalStream(method, requests)

    def get_state(self) -> grpc.ChannelConnectivity:
        """Returns that it is connected."""
        return grpc.ChannelConnectivity.READY

    async def close(self) -> None:
        """Does nothing: a local scorer has no connection."""


class LocalStream:
    """A call of two streams; requests are those given, or what is written."""

    def __init__(self, method: Callable[..., AsyncIterator[Any]], requests: AsyncIterable[Any] | None) -> None:
        self._written: asyncio.Queue[Any] = asyncio.Queue()
        self._responses = method(self._requests() if requests is None else requests, self)

    async def write(self, request: Any) -> None:
        """Sends a request; its sender bounds what is under way."""
        self._written.put_nowait(request)

    async def done_writing(self) -> None:
        """Ends the requests."""
        self._written.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async with aclosing(self._responses) as responses:  # type: ignore[type-var]
            try:
                async for response in responses:
                    yield response
            except Exception as error:
                raise _failure(error) from error

    def cancel(self) -> None:
        """Does nothing more than to end the requests: who reads the responses is cancelled with them."""
        self._written.put_nowait(None)

    def cancelled(self) -> bool:
        """Returns whether the peer went away: never, both are one process."""
        return False

    async def _requests(self) -> AsyncIterator[Any]:
        while (request := await self._written.get()) is not None:
            yield request


def local_scorer(metrics: Collection[str]) -> LocalChannel | None:
    """Returns a channel to a scorer of our own rules; None where they need a process of their own.

    The scorer is known by its name alone, as where it is started: it need not be installed.

    Args:
        metrics: Names of the metrics that will be asked for.
    """
    spec = importlib.util.find_spec(_MODULE.partition(".")[0])
    folder = Path(orchestrator.__file__).parent.parent
    # Another package of this name, in a user's own folder for example, must not be run in place of ours.
    if spec is None or spec.origin is None or Path(spec.origin).parent.parent != folder:
        return None
    try:
        servicer = importlib.import_module(_MODULE).embedded(metrics)
    except ImportError:  # a package that it needs is not installed: its own process says so
        return None
    return None if servicer is None else LocalChannel(servicer)


def _failure(error: Exception) -> Exception:
    return CallError.from_status(status_proto(status_of(error)))
