"""ModelService without a transport: requests are checked before any model is touched; the backend answers them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import Iterator, Sequence

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import MAX_MESSAGE_BYTES, InternalFailure, Unavailable, status_of, status_proto
from model_server import checks, clips, images
from model_server.backend import Backend, Call, Output
from model_server.checks import MEDIA, check_generate, check_likelihood
from model_server.held import HeldFiles, default_capacity
from model_server.images import PixelBudget
from model_server.parts import content
from model_server.tool_checks import settle


class Core:
    """ModelService without a transport.

    Args:
        backend: The model.
        pixels: Bounds the pixels decoded at a time; the default follows the container's memory.

    Attributes:
        held: Files that requests send by their hash alone.
        boot_id: Identity of the loaded model: each load has its own.
    """

    def __init__(self, backend: Backend, pixels: PixelBudget | None = None) -> None:
        self.backend = backend
        self._pixels = pixels or PixelBudget()
        self._info: model.GetModelInfoResponse | None = None
        self.held = HeldFiles(0, MAX_MESSAGE_BYTES)
        self.boot_id = ""
        self._calls, self._idle = 0, asyncio.Event()

    async def close(self) -> None:
        """Refuses further requests, waits for those in flight, and frees the backend, so that it can be replaced."""
        self._info = None
        while self._calls:
            self._idle.clear()
            await self._idle.wait()
        await self.backend.close()

    @contextlib.contextmanager
    def _in_flight(self) -> Iterator[None]:
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._idle.set()

    def ready(self) -> None:
        """Starts answering requests; called once the backend is loaded."""
        info = model.GetModelInfoResponse()
        info.CopyFrom(self.backend.info())
        info.max_request_bytes = info.max_request_bytes or MAX_MESSAGE_BYTES
        if model.CAPABILITY_IMAGE_INPUT in info.capabilities:
            info.media_limits.max_images = min(info.media_limits.max_images or checks.MAX_IMAGES, checks.MAX_IMAGES)
        if any(capability in info.capabilities for _, capability, _ in MEDIA):
            capacity = self.backend.max_held_bytes
            capacity = default_capacity() if capacity is None else capacity
            if self.held.capacity != capacity:  # else files sent to the previous model stay held
                self.held = HeldFiles(capacity, info.max_request_bytes)
        if self.held.capacity:
            info.capabilities.append(model.CAPABILITY_MEDIA_BY_HASH)
        info.max_held_bytes = self.held.capacity
        self.boot_id = secrets.token_hex(8)
        self._info = info

    def info(self) -> model.GetModelInfoResponse:
        """Describes the model.

        Raises:
            Unavailable: While it is loading, or another model answers.
        """
        if self._info is None:
            raise Unavailable("model_loading", "the model is still loading: ask again")
        self.backend.verify()
        return self._info

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        """Checks and answers one Generate request."""
        info = self.info()
        with self._in_flight():
            return await self._generate(request, info, call)

    async def _generate(
        self, request: model.GenerateRequest, info: model.GetModelInfoResponse, call: Call
    ) -> model.GenerateResponse:
        await self.held.complete(request.messages)
        await check_generate(request, info)
        async with self._pixels.held(await self._decoded(request.messages)):
            if request.samples > 1:
                outputs = await self.backend.generate_samples(_single_requests(request), call)
                return _merged([_settled(request, output) for output in outputs])
            return _with_text(request, await self.backend.generate(request, call))

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        """Checks and answers one Likelihood request."""
        info = self.info()
        with self._in_flight():
            await self.held.complete(request.messages)
            check_likelihood(request, info)
            async with self._pixels.held(await self._decoded(request.messages)):
                response = await self.backend.likelihood(request, call)
        for index, score in enumerate(response.scores):
            if math.isnan(score.logprob):
                raise InternalFailure("not_a_number", f"the log-probability of continuation {index} is NaN")
        for index, token in enumerate(response.prompt_tokens):
            if math.isnan(token.logprob):
                raise InternalFailure("not_a_number", f"the log-probability of token {index} of the prompt is NaN")
        return response

    async def _decoded(self, messages: Sequence[model.Message]) -> int:
        """Returns the pixels that the backend will decode, with audio as pixels of the same memory."""
        if not self.backend.decodes:
            return 0
        parts = list(content(messages))
        pixels = sum(images.pixels(part.image.data) for part in parts if part.HasField("image"))
        for part in parts:
            if part.HasField("video"):  # of which the first frame is decoded, beside the event loop
                pixels += await asyncio.to_thread(clips.most_pixels, part.video)
            elif part.HasField("audio"):
                pixels += await asyncio.to_thread(clips.audio_pixels, part.audio)
        return pixels


def _settled(request: model.GenerateRequest, output: Output) -> Output:
    """Returns one of several outputs completed, or its failure if it breaks the contract."""
    if isinstance(output, BaseException):
        return output
    try:
        return _with_text(request, output)
    except InternalFailure as error:
        return error


def _with_text(request: model.GenerateRequest, response: model.GenerateResponse) -> model.GenerateResponse:
    settle(request, response)
    if not response.parts and response.finish_reason != model.FINISH_REASON_CONTENT_FILTER:
        response.parts.add(text="")
    return response


def _single_requests(request: model.GenerateRequest) -> list[model.GenerateRequest]:
    """Returns a request for each output; they differ in their seeds."""
    requests = []
    for offset in range(request.samples):
        one = model.GenerateRequest()
        one.CopyFrom(request)
        one.samples = 0
        if one.config.HasField("seed"):
            one.config.seed = (one.config.seed + offset) % 2**64
        requests.append(one)
    return requests


def _merged(outputs: Sequence[Output]) -> model.GenerateResponse:
    """Returns one response of several outputs; raises the first failure if all have failed."""
    response = model.GenerateResponse()
    for output in outputs:
        result = response.samples.add()
        if isinstance(output, BaseException):
            if not isinstance(output, Exception):
                raise output
            result.status.CopyFrom(status_proto(status_of(output)))
            continue
        if output.HasField("served_by"):
            response.served_by.CopyFrom(output.served_by)
            output.ClearField("served_by")
        if output.HasField("prompt"):
            response.prompt.CopyFrom(output.prompt)
            output.ClearField("prompt")
        # The two messages have the same fields, under the same numbers.
        result.output.MergeFromString(output.SerializeToString())
    first = outputs[0]
    if isinstance(first, Exception) and not any(result.HasField("output") for result in response.samples):
        raise first
    return response
