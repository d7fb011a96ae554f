"""ModelService over gRPC: only the transport of `model_server.core`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from model_server.backend import Call
from model_server.batch_rpc import answer_batch
from model_server.core import Core
from model_server.metrics import Metrics
from model_server.tracing import Tracing

NAME = "lyncean.model.v1.ModelService"
"""The service's full name, under which health reports it."""

Request = TypeVar("Request", model.GenerateRequest, model.LikelihoodRequest)
Response = TypeVar("Response", model.GenerateResponse, model.LikelihoodResponse)
Context = grpc.aio.ServicerContext[Any, Any]


def _sum(usages: Sequence[model.Usage]) -> model.Usage:
    """Returns the usage of several outputs of a prompt: the sum of their tokens, the longest of their times."""
    longest = max(usages, key=lambda usage: usage.model_time.ToNanoseconds())
    total = model.Usage(queue_time=longest.queue_time, model_time=longest.model_time)
    for field in model.Usage.DESCRIPTOR.fields:
        if field.name.endswith("_tokens"):
            setattr(total, field.name, sum(getattr(usage, field.name) for usage in usages))
    return total


class ModelServicer(model_grpc.ModelServiceServicer):
    """The methods of the contract.

    Args:
        core: Answers the requests.
        metrics: The server's counters.
        tracing: Records spans; None records nothing.
    """

    def __init__(self, core: Core, metrics: Metrics, tracing: Tracing | None = None) -> None:
        self._core = core
        self._metrics = metrics
        self._tracing = tracing or Tracing()

    async def GetModelInfo(  # noqa: N802
        self, request: model.GetModelInfoRequest, context: Context
    ) -> model.GetModelInfoResponse:
        """See the contract."""
        info = model.GetModelInfoResponse()
        info.CopyFrom(self._core.info())
        info.capabilities.append(model.CAPABILITY_BATCH)
        info.boot_id = self._core.boot_id
        return info

    async def Generate(  # noqa: N802
        self, request: model.GenerateRequest, context: Context
    ) -> model.GenerateResponse:
        """See the contract."""
        return await self._answer("Generate", self._core.generate, request, context)

    async def Likelihood(  # noqa: N802
        self, request: model.LikelihoodRequest, context: Context
    ) -> model.LikelihoodResponse:
        """See the contract."""
        return await self._answer("Likelihood", self._core.likelihood, request, context)

    async def Batch(  # noqa: N802
        self, request: model.BatchRequest, context: Context
    ) -> AsyncIterator[model.BatchResponse]:
        """See the contract. Each call is counted and traced by itself, under its own method."""
        calls = (getattr(call, kind) for call in request.calls if (kind := call.WhichOneof("request")))
        await self._core.held.complete_batch([call.messages for call in calls])
        async for response in answer_batch(self, request, context):
            yield response

    async def _answer(
        self, name: str, method: Callable[[Request, Call], Awaitable[Response]], request: Request, context: Context
    ) -> Response:
        call = Call(context.time_remaining())
        with self._metrics.call(name), self._tracing.call(name, context.invocation_metadata()) as span:
            # Read before the call: a model is not replaced while it has calls in flight.
            revision, boot_id = self._core.info().model_revision, self._core.boot_id
            try:
                response = await method(request, call)
            except asyncio.CancelledError:
                call.cancel()
                raise
            spent = response.usage
            if isinstance(response, model.GenerateResponse) and response.samples:
                spent = _sum([result.output.usage for result in response.samples])
            span["usage"] = spent
            self._metrics.spent(spent)
            self._core.backend.verify()
            response.served_by.model_revision = revision
            response.served_by.boot_id = boot_id
            return response
