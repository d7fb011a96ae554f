"""One replica of a model: its channel, its GetModelInfo and its health."""

from __future__ import annotations

import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterator, Sequence
from enum import Enum

import grpc

from lyncean.limiter import Limiter
from lyncean.model.v1 import model_pb2 as model
from lyncean.model.v1 import model_pb2_grpc
from lyncean.rpc import CallError, Credentials, call, call_stream, dial
from lyncean.rpc.dial import Method
from orchestrator.engine.batch import MOST_CALLS, Answer, Response, answers_of, bundles
from orchestrator.engine.wire import Request, batch_of

PROBE_TIMEOUT = 5.0
_SERVICE = model.DESCRIPTOR.services_by_name["ModelService"].full_name
_RESPONSES: dict[str, type[Response]] = {"Generate": model.GenerateResponse, "Likelihood": model.LikelihoodResponse}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Health(Enum):
    """Health of a replica: only a ready one takes calls."""

    UNKNOWN = "not asked yet"
    READY = "ready"
    DOWN = "not answering"
    REFUSED = "another model"
    GONE = "no longer at this address"


class Replica:
    """A channel of its own to one address, and a bound on what is in flight there.

    The bound starts at what the server asks for.
    """

    def __init__(self, address: str, credentials: Credentials, host: str | None) -> None:
        credentials = credentials.named(host) if host else credentials
        self.address = address
        self.info = model.GetModelInfoResponse()
        self.health = Health.UNKNOWN
        self.last_error = ""
        self.reached = False
        self.in_flight = 0
        self.limiter = Limiter(1)
        self._metadata = credentials.metadata
        self._channel = dial(address, credentials)
        self._stub = model_pb2_grpc.ModelServiceStub(self._channel)
        # Without a serializer: requests are put together beforehand.
        self._methods: dict[str, Method[Awaitable[Response]]] = {
            name: self._channel.unary_unary(f"/{_SERVICE}/{name}", response_deserializer=response.FromString)
            for name, response in _RESPONSES.items()
        }
        self._batch: Method[AsyncIterable[model.BatchResponse]] = self._channel.unary_stream(
            f"/{_SERVICE}/Batch", response_deserializer=model.BatchResponse.FromString
        )
        self.batches = False

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""
        return self.limiter.limit

    @property
    def free(self) -> int:
        """Further calls it takes now."""
        return self.limit - self.in_flight if self.health is Health.READY else 0

    async def fetch_info(self, timeout: float = PROBE_TIMEOUT) -> model.GetModelInfoResponse:
        """Calls GetModelInfo.

        Raises:
            CallError: If there is no response.
        """
        request = model.GetModelInfoRequest()
        return await call(self._stub.GetModelInfo, request, timeout=timeout, metadata=self._metadata)

    def admit(self, info: model.GetModelInfoResponse, concurrency: int | None) -> None:
        """Takes it into service."""
        self.info = info
        most = concurrency or info.max_concurrency or 1
        if self.health is Health.UNKNOWN:
            self.limiter = Limiter(most)
        self.limiter.bound(most)
        self.batches = model.CAPABILITY_BATCH in info.capabilities
        self.health = Health.READY
        self.last_error = ""

    async def ask(self, request: Request, timeout: float) -> Response:
        """Sends one request.

        Raises:
            CallError: For every status but OK.
        """
        method, limit = self._methods[request.method], self.info.max_request_bytes
        return await call(method, request.data, timeout=timeout, metadata=self._metadata, max_bytes=limit)

    def bundles(self, sizes: Sequence[int]) -> Iterator[range]:
        """Cuts calls of these sizes, in bytes, into runs to make in one Batch each, or one by one.

        A Batch holds half of what may be in flight at most, so that neither end waits for the other.
        """
        if not self.batches:
            return (range(index, index + 1) for index in range(len(sizes)))
        return bundles(sizes, min(MOST_CALLS, max(1, self.limit // 2)), self.info.max_request_bytes)

    async def ask_together(self, requests: Sequence[Request], timeout: float) -> AsyncIterator[list[Answer]]:
        """Sends several requests as one Batch and yields answers as they come.

        Raises:
            CallError: If the Batch itself fails. What was not answered before has no answer.
        """
        data, limit = batch_of(requests), self.info.max_request_bytes
        stream = call_stream(self._batch, data, timeout=timeout, metadata=self._metadata, max_bytes=limit)
        async for response in stream:
            yield list(answers_of(response, requests))

    def failed(self, error: CallError) -> None:
        """Counts a failure. `reached` tells a server that is not ready from one that is not there."""
        self.last_error = describe(error)
        self.reached = not not_there(error)

    async def close(self) -> None:
        """Closes the channel; calls in flight end with CANCELLED."""
        await self._channel.close()


def backoff(attempt: int) -> float:
    """Returns the seconds to wait before try number `attempt`, from 1: jittered, doubling, bounded."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt - 1, 10)) * random.uniform(0.5, 1.0)


def not_there(error: CallError) -> bool:
    """Whether a failure means that no server is at the address, unlike one of a server that is not ready."""
    return error.code is grpc.StatusCode.DEADLINE_EXCEEDED or "failed to connect" in str(error)


def describe(error: CallError) -> str:
    """Returns a call's failure as people read it."""
    message = str(error)
    if "handshake failed" in message:
        message = f"TLS handshake failed: {message.rpartition('OPENSSL_internal:')[2].removesuffix(': OK')}"
    elif "Failed parsing HTTP/2" in message:
        message = "what answers there does not speak gRPC"
    elif "failed to connect" in message:
        message = message.rpartition(": ")[2]
    return f"{error.code.name}: {message[:300]}"


def dialled(credentials: Credentials) -> str:
    """Returns how a server has to be started, in words: both ends must agree on TLS."""
    return "with TLS as asked for here" if credentials.tls else "without TLS as asked for here"
