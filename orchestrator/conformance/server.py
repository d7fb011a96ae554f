"""The server under judgement: how checks talk to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from lyncean.media import media_type
from lyncean.model.v1 import model_pb2 as model
from lyncean.model.v1 import model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, Credentials, call
from orchestrator.conformance.verdicts import Broken

SERVICE = "lyncean.model.v1.ModelService"
PATIENT = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
"""What a client waits and asks again for."""
_T = TypeVar("_T")
_EXACT = ("", "float32", "float64")


@dataclass(slots=True)
class Server:
    """A server that answers.

    Attributes:
        address: Its `host:port`.
        credentials: How it is dialled.
        channel: A channel to it.
        timeout: Seconds that one call may take.
        info: Its description, read before the first check.
        pid: Its process, where the drain may be judged.
    """

    address: str
    credentials: Credentials
    channel: grpc.aio.Channel
    timeout: float = 60.0
    info: model.GetModelInfoResponse = field(default_factory=model.GetModelInfoResponse)
    pid: int | None = None

    @property
    def stub(self) -> Any:
        """The generated stub."""
        return model_grpc.ModelServiceStub(self.channel)

    def claims(self, capability: str) -> bool:
        """Whether it claims a capability, named without its prefix."""
        return model.Capability.Value(f"CAPABILITY_{capability}") in self.info.capabilities

    @property
    def exact(self) -> bool:
        """Whether its arithmetic is fine enough for texts to be the same in any company."""
        return self.info.compute_dtype in _EXACT

    @property
    def tolerance(self) -> float:
        """Nats per token by which two computations of one likelihood may differ."""
        return 1e-3 if self.exact else 5e-2

    @property
    def parallel(self) -> int:
        """Requests to have in flight: twice what the server asks for, within reason."""
        return max(2, min(2 * self.info.max_concurrency, 16))

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """Makes one call; a failure is a CallError."""
        function = getattr(self.stub, method)
        return await call(function, request, timeout=timeout or self.timeout, metadata=self.credentials.metadata)

    async def patiently(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Returns what an attempt returns, made again while it meets a full queue, as a client does.

        Raises:
            CallError: Another failure, or the queue was full until the time was up.
        """
        until = time.monotonic() + self.timeout
        while True:
            try:
                return await attempt()
            except CallError as error:
                if error.code not in PATIENT or time.monotonic() > until:
                    raise
            await asyncio.sleep(0.1)

    async def batch(
        self, calls: Sequence[model.BatchCall], *, timeout: float | None = None
    ) -> AsyncGenerator[model.BatchResponse]:
        """Makes one Batch; a failure of the whole is a CallError. Given up when the iterator is closed."""
        request, metadata = model.BatchRequest(calls=calls), self.credentials.metadata
        stream = self.stub.Batch(request, timeout=timeout or self.timeout, metadata=metadata)
        try:
            async for response in stream:
                yield response
        except grpc.aio.AioRpcError as error:
            raise CallError.from_rpc(error) from None
        finally:
            stream.cancel()

    async def generate(self, *parts: str | bytes, **config: Any) -> model.GenerateResponse:
        """Generates greedily from one user message of texts and images, 16 tokens unless told."""
        answer: model.GenerateResponse = await self.call("Generate", generation(*parts, **config))
        return answer

    async def likelihood(
        self, parts: Sequence[str | bytes], continuations: Sequence[str], tokens: bool = False
    ) -> Sequence[model.ContinuationScore]:
        """Scores continuations of one user message."""
        request = model.LikelihoodRequest(messages=[user(*parts)], continuations=continuations, return_tokens=tokens)
        answer: model.LikelihoodResponse = await self.call("Likelihood", request)
        if len(answer.scores) != len(continuations):
            raise Broken(f"{len(continuations)} continuations were sent and {len(answer.scores)} scores came back")
        return answer.scores

    async def send(self, request: Message) -> Any:
        """Calls the method that a request belongs to and returns its response."""
        return await self.call("Likelihood" if isinstance(request, model.LikelihoodRequest) else "Generate", request)

    async def refused(self, request: Message, *codes: grpc.StatusCode, what: str) -> CallError:
        """Sends what must be refused and returns the refusal.

        Raises:
            Broken: It was answered, or refused with another status.
        """
        names = " or ".join(code.name for code in codes)
        try:
            await self.send(request)
        except CallError as error:
            if error.code not in codes:
                raise Broken(f"{what}: {error.code.name} ({error}) in place of {names}") from error
            return error
        raise Broken(f"{what}: answered in place of {names}")

    def request(self, *messages: model.Message) -> Message:
        """Returns a request over a conversation for the method that the server has, Generate if both."""
        if self.claims("GENERATE"):
            return model.GenerateRequest(messages=messages, config=model.GenerationConfig(max_output_tokens=4))
        return model.LikelihoodRequest(messages=messages, continuations=["yes"])

    async def alive(self, after: str) -> None:
        """Makes sure that a small request is still answered.

        Raises:
            Broken: It is not.
        """
        try:
            async with asyncio.timeout(self.timeout + 5):
                while True:
                    try:
                        await self.send(self.request(user("Say hello.")))
                        return
                    except CallError as error:
                        if error.code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                            raise Broken(
                                f"after {after} a small request ends with {error.code.name}: {error}"
                            ) from error
                    await asyncio.sleep(0.2)
        except TimeoutError as error:
            raise Broken(f"after {after} a small request got no answer within {self.timeout:.0f} s") from error


def user(*parts: str | bytes) -> model.Message:
    """Returns a user's message of texts and images."""
    made = [
        model.Part(text=part)
        if isinstance(part, str)
        else model.Part(image=model.Image(data=part, media_type=media_type(part)))
        for part in parts
    ]
    return model.Message(role=model.ROLE_USER, parts=made)


def generation(*parts: str | bytes, **config: Any) -> model.GenerateRequest:
    """Returns a greedy request of one user message, 16 tokens long unless told."""
    full = {"max_output_tokens": 16, "temperature": 0.0} | config
    return model.GenerateRequest(messages=[user(*parts)], config=model.GenerationConfig(**full))


def text_of(response: model.GenerateResponse) -> str:
    """Returns the text parts of an answer, joined."""
    return "".join(part.text for part in response.parts if part.WhichOneof("kind") == "text")
