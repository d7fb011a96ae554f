"""The server under test: how checks talk to it, and what they expect of any call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message

from lyncean.media.types import media_type
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, Credentials
from orchestrator.conformance.check import Broken, applies, wants
from orchestrator.engine.batch import Ending, answers_of
from orchestrator.engine.wire import Request as Sent, Response

SERVICE = "lyncean.model.v1.ModelService"
FULL = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
"""After these a client waits and sends the request again."""
LATE = (grpc.StatusCode.DEADLINE_EXCEEDED, *FULL)
"""Statuses of a call whose time was over."""
INVALID = grpc.StatusCode.INVALID_ARGUMENT
MOST = 16
"""Calls that a check has in flight at most."""
Request = model.GenerateRequest | model.LikelihoodRequest
_R = TypeVar("_R", bound=Request | None)
Make = Callable[["Server", Sequence[_R]], Awaitable[Sequence[Ending]]]
"""One way of making calls: `one_by_one`, `at_once` or `in_batch`."""
_T = TypeVar("_T")
_EXACT = ("", "float32", "float64")
CUT_CHARACTER = "�"
"""Stands for bytes of a character that a limit cut in two."""


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
        """Returns True if the server claims a capability, named without its prefix."""
        return model.Capability.Value(f"CAPABILITY_{capability}") in self.info.capabilities

    @property
    def exact(self) -> bool:
        """True if its arithmetic is precise enough for equal texts in any batch."""
        return self.info.compute_dtype in _EXACT

    @property
    def tolerance(self) -> float:
        """Nats per token by which two computations of one likelihood may differ."""
        return 1e-3 if self.exact else 5e-2

    @property
    def parallel(self) -> int:
        """Requests to have in flight: twice what the server asks for, within reason."""
        return max(2, min(2 * self.info.max_concurrency, MOST))

    @property
    def room(self) -> int:
        """Tokens of an answer that may reason first: 512, or half of a small context."""
        context = self.info.max_context_tokens
        return min(512, context // 2) if context else 512

    def each_method(self, text: str, continuations: Sequence[str], **config: Any) -> list[Request]:
        """Returns the same question for each method that the server has."""
        requests: list[Request] = [generation(text, **config)] if self.claims("GENERATE") else []
        return [*requests, scoring([text], continuations)] if self.claims("LIKELIHOOD") else requests

    def request(self, *messages: model.Message) -> Request:
        """Returns a request over a conversation for the method that the server has, Generate if both."""
        if self.claims("GENERATE"):
            return model.GenerateRequest(messages=messages, config=model.GenerationConfig(max_output_tokens=4))
        return model.LikelihoodRequest(messages=messages, continuations=["yes"])

    def parsed(self, fields: dict[str, Any]) -> Request:
        """Returns a request from protobuf JSON; its fields say the method, `request` where both have them."""
        kinds: dict[str, Request] = {"config": model.GenerateRequest(), "continuations": model.LikelihoodRequest()}
        request = next((kinds[name] for name in kinds if name in fields), self.request())
        json_format.ParseDict(fields, request)
        return request

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """Makes one call; a failure is a CallError."""
        function, metadata = getattr(self.stub, method), self.credentials.metadata
        try:  # unlike `lyncean.rpc.call`, which refuses a large request itself
            return await function(request, timeout=timeout or self.timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise CallError.from_rpc(error) from None

    async def send(self, request: Request, *, timeout: float | None = None) -> Any:
        """Calls the method that a request belongs to and returns its response."""
        return await self.call(method_of(request), request, timeout=timeout)

    async def ending(self, request: Request, *, timeout: float | None = None) -> Ending:
        """Makes the call of a request and returns its response or its failure."""
        try:
            response: Response = await self.send(request, timeout=timeout)
            return response
        except CallError as error:
            return error

    async def batch(
        self, calls: Sequence[Request | None], *, timeout: float | None = None
    ) -> AsyncGenerator[model.BatchResponse]:
        """Makes one Batch, with a call without a request for None; cancelled when the iterator is closed.

        Raises:
            CallError: The Batch as a whole failed.
        """
        request, metadata = model.BatchRequest(calls=map(_batch_call, calls)), self.credentials.metadata
        stream = self.stub.Batch(request, timeout=timeout or self.timeout, metadata=metadata)
        try:
            async for response in stream:
                yield response
        except grpc.aio.AioRpcError as error:
            raise CallError.from_rpc(error) from None
        finally:
            stream.cancel()

    async def patiently(self, attempt: Callable[[], Awaitable[_T]], full: Sequence[grpc.StatusCode] = FULL) -> _T:
        """Returns what an attempt returns, made again while it meets a full queue, as a client does.

        Raises:
            CallError: Another failure, or the queue was full until the time was up.
        """
        until = time.monotonic() + self.timeout
        while True:
            try:
                return await attempt()
            except CallError as error:
                if error.code not in full or time.monotonic() > until:
                    raise
            await asyncio.sleep(0.1)

    async def settled(self, make: Make[_R], requests: Sequence[_R]) -> list[Ending]:
        """Makes calls in one way, those that meet a full queue again; returns their endings."""
        endings: dict[int, Ending] = {}

        async def attempt() -> None:
            left = [index for index in range(len(requests)) if index not in endings]
            attempted = await make(self, [requests[index] for index in left])
            full = [ending for ending in attempted if isinstance(ending, CallError) and ending.code in FULL]
            endings.update((index, ending) for index, ending in zip(left, attempted, strict=True) if ending not in full)
            for error in full:
                raise error

        await self.patiently(attempt)
        return [endings[place] for place in range(len(requests))]

    async def generate(self, *parts: str | bytes, **config: Any) -> model.GenerateResponse:
        """Generates greedily from one user message of texts and images, 16 tokens unless told."""
        response: model.GenerateResponse = await self.send(generation(*parts, **config))
        return response

    async def likelihood(
        self, parts: Sequence[str | bytes], continuations: Sequence[str], tokens: bool = False
    ) -> Sequence[model.ContinuationScore]:
        """Scores continuations of one user message."""
        return await self.scores(scoring(parts, continuations, return_tokens=tokens))

    async def scores(self, request: model.LikelihoodRequest) -> Sequence[model.ContinuationScore]:
        """Returns a score for each continuation of a request."""
        scores: Sequence[model.ContinuationScore] = (await self.send(request)).scores
        number = len(request.continuations)
        wants(len(scores) == number, f"{number} continuations were sent and {len(scores)} scores came back")
        return scores

    async def refused(self, request: Request, *codes: grpc.StatusCode, what: str) -> CallError:
        """Sends what must be refused, with INVALID_ARGUMENT unless told, and returns the refusal."""
        return refusal(await self.ending(request), what, *codes)

    async def alive(self, after: str) -> None:
        """Makes sure that a small request is still answered.

        Raises:
            Broken: It is not.
        """
        try:
            await self.patiently(lambda: self.send(self.request(user("Say hello."))), FULL[:1])
        except CallError as error:
            raise Broken(f"after {after} a small request ends with {error.code.name}: {error}") from error


async def one_by_one(server: Server, requests: Sequence[Request]) -> list[Ending]:
    """Makes calls one after another."""
    return [await server.ending(request) for request in requests]


async def at_once(server: Server, requests: Sequence[Request], *, timeout: float | None = None) -> list[Ending]:
    """Makes calls side by side."""
    return await asyncio.gather(*(server.ending(request, timeout=timeout) for request in requests))


async def in_batch(server: Server, calls: Sequence[Request | None], *, timeout: float | None = None) -> list[Ending]:
    """Makes calls in one Batch; its own status stands for the calls without a result."""
    sent = [Sent(method_of(call), ()) for call in calls]
    endings: dict[int, Ending] = {}
    end = CallError(grpc.StatusCode.INTERNAL, "batch_incomplete", "the Batch ended without a result for it")
    try:
        async for response in server.batch(calls, timeout=timeout):
            for index, ending in answers_of(response, sent, lambda answer, _: answer):
                endings.setdefault(index, ending)
    except CallError as error:
        end = error
    return [endings.get(index, end) for index in range(len(calls))]


def together(server: Server) -> int:
    """Returns how many calls may be sent in one Batch, two at least.

    Raises:
        NotApplicable: The server asks for one at a time.
    """
    most = server.info.max_concurrency
    state = f"max_concurrency is {most}, so no two calls are ever sent together"
    applies(most > 1, f"{state}: raise it, or leave CAPABILITY_BATCH out")
    return min(most, MOST)


def response_of(ending: Ending, what: str) -> Response:
    """Returns the response of a call.

    Raises:
        Broken: It failed.
    """
    if isinstance(ending, CallError):
        raise Broken(f"{what} ended with {ending.code.name}: {ending}")
    return ending


def refusal(ending: Ending | None, what: str, *codes: grpc.StatusCode) -> CallError:
    """Returns the failure of a call that must be refused, with INVALID_ARGUMENT unless told.

    Raises:
        Broken: It was answered, or refused with another status.
    """
    codes = codes or (INVALID,)
    names = " or ".join(code.name for code in codes)
    if not isinstance(ending, CallError):
        raise Broken(f"{what}: answered in place of {names}")
    wants(ending.code in codes, f"{what}: {ending.code.name} ({ending}) in place of {names}")
    return ending


def same_score(server: Server, what: str, one: model.ContinuationScore, other: model.ContinuationScore) -> float:
    """Returns by how many nats two scores of one continuation differ.

    Raises:
        Broken: They have different tokens, or differ by more than the arithmetic explains.
    """
    counts = one.token_count == other.token_count
    wants(counts, f"{what}: {one.token_count} and {other.token_count} tokens")
    apart = 0.0 if one.logprob == other.logprob else abs(one.logprob - other.logprob)
    bound = server.tolerance * max(1, one.token_count)
    wants(apart <= bound, f"{what}: {one.logprob:.6f} and {other.logprob:.6f}, more than {bound:g} apart")
    return apart


async def same_answers(server: Server, requests: Sequence[Request], make: Make[Request]) -> float:
    """Makes calls one by one and together; returns by how many nats two scores of one continuation differ at most.

    Raises:
        Broken: A call failed, or was answered otherwise among the others.
    """
    how = f"among {len(requests)}"
    alone = [response_of(ending, "a call by itself") for ending in await server.settled(one_by_one, requests)]
    among = [response_of(ending, f"a call {how}") for ending in await server.settled(make, requests)]
    prompts = [request.messages[0].parts[0].text for request in requests]
    texts = [text_of(ending) if isinstance(ending, model.GenerateResponse) else None for ending in alone]
    apart = 0.0
    for prompt, one, other in zip(prompts, alone, among, strict=True):
        if isinstance(one, model.LikelihoodResponse) and isinstance(other, model.LikelihoodResponse):
            counts = len(one.scores), len(other.scores)
            wants(counts[0] == counts[1], f"{counts[0]} scores alone and {counts[1]} {how}")
            for index, (score, again) in enumerate(zip(one.scores, other.scores, strict=True)):
                score_of = f"continuation {index} of {prompt!r} alone and {how}"
                apart = max(apart, same_score(server, score_of, score, again))
        elif isinstance(one, model.GenerateResponse) and isinstance(other, model.GenerateResponse):
            text = text_of(other)
            # Half precision may end a tie the other way in a batch; another's answer is never excusable.
            if text != text_of(one) and (text in texts or server.exact):
                whose = f"that of {prompts[texts.index(text)]!r}" if text in texts else repr(text)
                raise Broken(f"the answer to {prompt!r} is {text_of(one)!r} alone and {whose} {how}")
    return apart


def user(*parts: str | bytes) -> model.Message:
    """Returns a user's message of texts and images."""
    both = [
        model.Part(text=part)
        if isinstance(part, str)
        else model.Part(image=model.Image(data=part, media_type=media_type(part)))
        for part in parts
    ]
    return model.Message(role=model.ROLE_USER, parts=both)


def generation(*parts: str | bytes, **config: Any) -> model.GenerateRequest:
    """Returns a greedy request of one user message, 16 tokens long unless told."""
    full = {"max_output_tokens": 16, "temperature": 0.0} | config
    return model.GenerateRequest(messages=[user(*parts)], config=model.GenerationConfig(**full))


def scoring(
    parts: Sequence[str | bytes], continuations: Sequence[str], *, return_tokens: bool = False
) -> model.LikelihoodRequest:
    """Returns a request to score continuations of one user message."""
    return model.LikelihoodRequest(messages=[user(*parts)], continuations=continuations, return_tokens=return_tokens)


def text_of(response: model.GenerateResponse) -> str:
    """Returns the text parts of an answer, joined."""
    return "".join(part.text for part in response.parts if part.WhichOneof("kind") == "text")


def enum_name(kind: Any, value: int) -> str:
    """Returns the name of a value of an enum, its number if the contract has no such value."""
    return str(kind.Name(value)) if value in kind.values() else str(value)


def method_of(request: Request | None) -> Literal["Generate", "Likelihood"]:
    """Returns the method that a request belongs to."""
    return "Likelihood" if isinstance(request, model.LikelihoodRequest) else "Generate"


def _batch_call(request: Request | None) -> model.BatchCall:
    if isinstance(request, model.LikelihoodRequest):
        return model.BatchCall(likelihood=request)
    return model.BatchCall(generate=request)
