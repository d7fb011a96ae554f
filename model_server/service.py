"""ModelService over gRPC: the core, a transport and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from lynceus.model.v1 import model_pb2 as model
from lynceus.model.v1 import model_pb2_grpc as model_grpc
from model_server.backend import Call
from model_server.core import Core
from model_server.metrics import Metrics

NAME = "lynceus.model.v1.ModelService"
"""The service's full name, under which health reports it."""

Context = grpc.aio.ServicerContext[Any, Any]


class ModelServicer(model_grpc.ModelServiceServicer):
    """The three methods.

    Args:
        core: What answers.
        metrics: What counts.
    """

    def __init__(self, core: Core, metrics: Metrics) -> None:
        self._core = core
        self._metrics = metrics

    async def GetModelInfo(  # noqa: N802
        self, request: model.GetModelInfoRequest, context: Context
    ) -> model.GetModelInfoResponse:
        """See the contract."""
        return self._core.info()

    async def Generate(  # noqa: N802
        self, request: model.GenerateRequest, context: Context
    ) -> model.GenerateResponse:
        """See the contract."""
        with self._metrics.call("Generate"):
            call = _call(context)
            try:
                response = await self._core.generate(request, call)
            except asyncio.CancelledError:
                call.cancel()
                raise
            self._metrics.spent(response.usage)
            return response

    async def Likelihood(  # noqa: N802
        self, request: model.LikelihoodRequest, context: Context
    ) -> model.LikelihoodResponse:
        """See the contract."""
        with self._metrics.call("Likelihood"):
            call = _call(context)
            try:
                response = await self._core.likelihood(request, call)
            except asyncio.CancelledError:
                call.cancel()
                raise
            self._metrics.spent(response.usage)
            return response


def _call(context: Context) -> Call:
    return Call(context.time_remaining())
