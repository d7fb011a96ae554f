"""A ModelService of this process as the front calls one: without a transport, with the same statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from lyncean.rpc import CallError, status_of
from model_server.service import ModelServicer

Response = TypeVar("Response")


class _Context:
    """The part of a call's context that the servicer uses."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def time_remaining(self) -> float:
        return self._timeout

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


class LocalStub:
    """The methods of a stub.

    Args:
        servicer: What answers.
    """

    def __init__(self, servicer: ModelServicer) -> None:
        self.GetModelInfo = _called(servicer.GetModelInfo)
        self.Generate = _called(servicer.Generate)
        self.Likelihood = _called(servicer.Likelihood)


def _called(method: Callable[[Any, Any], Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """Returns a stub's method that calls a servicer's."""

    async def call(request: object, *, timeout: float, metadata: object = ()) -> Response:
        try:
            async with asyncio.timeout(timeout):
                return await method(request, _Context(timeout))
        except TimeoutError:
            late = f"the answer took longer than {timeout:g} seconds"
            raise CallError(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline_exceeded", late) from None
        except Exception as error:
            status = status_of(error)
            raise CallError(
                status.code, status.reason, str(status), status.metadata, status.retry_after or 0.0
            ) from error

    return call
