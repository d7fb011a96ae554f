"""One replica of a model: its channel, its GetModelInfo and its health."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from enum import Enum
from functools import partial

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Credentials, call, call_large, call_stream, check_size, dial, parsing, patience
from lyncean.rpc.channel import Method, NotSentError
from lyncean.rpc.limiter import Limiter
from orchestrator.engine.batch import MOST_CALLS, Answer, Ending, answers_of, as_they_end, bundles, outputs_of
from orchestrator.engine.check import bad_response, checked
from orchestrator.engine.failures import describe, not_there
from orchestrator.engine.sent import SentFiles, not_held
from orchestrator.engine.wire import Request, Response, batch_of, samples_of

PROBE_TIMEOUT = 5.0
LOOK_SECONDS = 10.0
"""Seconds that an answer waits until its server is known; then it is asked for again, elsewhere if possible."""
_SERVICE = model.DESCRIPTOR.services_by_name["ModelService"].full_name
_READERS: dict[str, Callable[[bytes], Response | None]] = {
    "Generate": parsing(model.GenerateResponse.FromString),
    "Likelihood": parsing(model.LikelihoodResponse.FromString),
}
_Large = Callable[..., Awaitable[Response | None]]
_LARGE = 2 * 1024 * 1024
"""Bytes of a request beyond which its memory is freed once it is sent, at the cost of some time."""
_RECENT = 0.1
"""Weight of an answer's duration in the mean."""
backoff = partial(patience.backoff, first=0.1, longest=5.0)
"""Pauses of a run: shorter, since many calls wait for each of its servers."""


class Health(Enum):
    """Health of a replica: only a ready one takes calls."""

    UNKNOWN = "not asked yet"
    READY = "ready"
    DOWN = "not answering"
    REFUSED = "another model"
    GONE = "no longer at this address"


PROBED = (Health.DOWN, Health.UNKNOWN)
"""A replica may take calls once it answers a probe."""


class Replica:
    """A channel of its own to one address, and a bound on the calls in flight there.

    The bound starts at the server's stated concurrency.
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
        self.waiting = self.unconfirmed = 0
        self.seconds = self.longest = self._rests_until = 0.0
        self._full = ""
        self._boots: set[str] = set()
        self._connection = 0
        self._refusal = -1, ""
        self.wanted = asyncio.Event()
        """Set while answers wait until GetModelInfo is asked again."""
        self._looks = self._awaited_look = self._agreeing_look = self._refused_look = 0
        self._looked = asyncio.Event()
        self._metadata = credentials.metadata
        self._channel = dial(address, credentials)
        # Without a serializer: requests are serialized beforehand.
        self._get_info: Method[Awaitable[model.GetModelInfoResponse | None]] = self._channel.unary_unary(
            f"/{_SERVICE}/GetModelInfo", response_deserializer=parsing(model.GetModelInfoResponse.FromString)
        )
        self._methods: dict[str, Method[Awaitable[Response | None]]] = {
            name: self._channel.unary_unary(f"/{_SERVICE}/{name}", response_deserializer=read)
            for name, read in _READERS.items()
        }
        self._batch: Method[AsyncIterable[model.BatchResponse | None]] = self._channel.unary_stream(
            f"/{_SERVICE}/Batch", response_deserializer=parsing(model.BatchResponse.FromString)
        )
        self.batches = False
        self.samples = 0
        self._sent = SentFiles(self.info)
        self._sent_to: tuple[str, int] | None = None

    @property
    def files(self) -> SentFiles:
        """The files sent that the replica holds; nothing is assumed of another start or connection."""
        if self._sent_to != self.now():
            self._sent, self._sent_to = SentFiles(self.info), self.now()
        return self._sent

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""
        return self.limiter.limit

    @property
    def free(self) -> int:
        """Further calls it takes now."""
        return self.limit - self.in_flight if self.health is Health.READY and not self.resting else 0

    @property
    def resting(self) -> bool:
        """True if it asked for a pause that is not over."""
        return time.monotonic() < self._rests_until

    @property
    def most(self) -> int:
        """Calls that may be in flight while there is enough for every replica."""
        return self.limit + self.waiting if self.limit == self.limiter.most and not self.resting else self.limit

    def full(self, error: CallError) -> None:
        """Counts a full queue: fewer calls in flight, and none for the pause that it asks for."""
        self.limiter.refused()
        self._rests_until = max(self._rests_until, time.monotonic() + error.retry_after)
        self._full = describe(error)

    @property
    def rest(self) -> str:
        """End of its pause by the clock, and the reason: "127.0.0.1:50051 until 14:03:07: RESOURCE_EXHAUSTED: ..."."""
        until = time.localtime(time.time() + self._rests_until - time.monotonic())
        return f"{self.address} until {time.strftime('%H:%M:%S', until)}: {self._full}"

    def answered(self, seconds: float) -> None:
        """Counts an answer and its duration: `seconds` is the mean over the last ones, `longest` the longest of all."""
        self.limiter.succeeded()
        self.longest = max(seconds, self.longest)
        self.seconds += (seconds - self.seconds) * (_RECENT if self.seconds else 1.0)

    async def fetch_info(self, timeout: float = PROBE_TIMEOUT) -> model.GetModelInfoResponse:
        """Calls GetModelInfo.

        Raises:
            CallError: If it does not respond, or the connection changed meanwhile.
        """
        connection = self._connection
        info = await call(self._get_info, b"", timeout=timeout, metadata=self._metadata)
        if info is None:
            raise bad_response("its bytes are no GetModelInfoResponse")
        if connection != self._connection:
            raise CallError(grpc.StatusCode.UNAVAILABLE, "identity_unknown", "the connection changed meanwhile")
        return info

    async def connection_lost(self) -> None:
        """Waits until the connection ends. Whoever answers on the next one may be another server.

        Raises:
            UsageError: If the channel is closed.
        """
        while True:
            state = self._channel.get_state()
            await self._channel.wait_for_state_change(state)
            if state is grpc.ChannelConnectivity.READY:
                self._connection += 1
                return

    @property
    def turned(self) -> str:
        """Reason of its refusal on this connection, whose server cannot change; "" if it was not refused."""
        connection, why = self._refusal
        return why if connection == self._connection else ""

    def begin_look(self) -> int:
        """Returns the number of a new look at the server. It confirms answers that came before it began."""
        self._looks += 1
        return self._looks

    def agree(self, look: int) -> None:
        """Tells waiting calls that the model is the run's at this look."""
        self._agreeing_look = max(look, self._agreeing_look)
        self._tell()

    def admit(self, info: model.GetModelInfoResponse, concurrency: int | None, look: int) -> None:
        """Takes it into service after a look."""
        self.info = info
        most = concurrency or info.max_concurrency or 1
        if self.health is Health.UNKNOWN:
            self.limiter = Limiter(most)
        self.limiter.bound(most)
        self.waiting = 0 if concurrency else info.max_waiting
        self.batches = model.CAPABILITY_BATCH in info.capabilities
        self.samples = info.max_samples if model.CAPABILITY_SAMPLES in info.capabilities else 0
        self.health = Health.READY
        self.last_error = ""
        self._boots.add(info.boot_id)
        self.agree(look)

    def refuse(self, why: str, look: int) -> None:
        """Takes it out of service: it is another model at this look."""
        self._refusal = self._connection, why
        self.health, self.last_error = Health.REFUSED, why
        self._refused_look = max(look, self._refused_look)
        self._tell()

    def _tell(self) -> None:
        if self._awaited_look <= max(self._agreeing_look, self._refused_look):
            self.wanted.clear()
        self._looked.set()

    async def ask(self, request: Request, timeout: float, *, in_full: bool = False) -> Ending:
        """Sends one request and returns its response or failure; a response that breaks the contract is a failure.

        Args:
            request: The request.
            timeout: Deadline in seconds.
            in_full: Whether the bytes of all files are sent, even of those that the replica holds.
        """
        try:
            response = checked(await self._call(request, timeout, in_full), request)
            self.files.answered(request)
            return response
        except CallError as error:
            return error

    async def ask_samples(self, requests: Sequence[Request], timeout: float) -> list[Ending] | CallError:
        """Sends repeats of one prompt as one request; returns the ending of each, or the failure of all."""
        try:
            return outputs_of(await self._call(samples_of(requests), timeout), requests)
        except CallError as error:
            return error

    async def _call(self, request: Request, timeout: float, in_full: bool = False) -> Response | None:
        """Makes one call, and repeats it with the bytes of files that the server lacks.

        Raises:
            CallError: If it fails.
        """
        method, limit = self._methods[request.method], self.info.max_request_bytes
        check_size(request.size, limit)  # files count as if they were sent
        for full in (True,) if in_full else (False, False, True):
            pieces = self._pieces(request, set(), full)
            left = timeout
            try:
                if sum(map(len, pieces)) > _LARGE:
                    began = time.monotonic()
                    with contextlib.suppress(NotSentError):
                        name, read = f"/{_SERVICE}/{request.method}", _READERS[request.method]
                        large: _Large = self._channel.stream_unary(name, response_deserializer=read)
                        return await call_large(large, pieces, timeout=timeout, metadata=self._metadata)
                    left = max(0.0, timeout - (time.monotonic() - began))  # a peer that reads nothing has one timeout
                return await call(method, b"".join(pieces), timeout=left, metadata=self._metadata, max_bytes=limit)
            except CallError as error:
                if not not_held(error):
                    raise
                self.files.refused(error, request)
        raise bad_response("it lacks files whose bytes it was sent")

    def _pieces(self, request: Request, sent: set[bytes], in_full: bool = False) -> Sequence[bytes]:
        """Returns the pieces of a request as they are sent now.

        Args:
            request: The request.
            sent: SHA-256 of the files whose bytes stand in the same message before it; its own are added.
            in_full: Whether the bytes of all others are sent.
        """
        files = self.files
        if not files.capacity or not any(request.digests):
            return request.chunks
        held = files.sending(request)
        if not in_full:
            sent |= held
        return request.by_hash(sent)

    def bundles(self, requests: Sequence[Request]) -> Iterator[range]:
        """Cuts calls into runs to make in one Batch each, or one by one.

        A Batch holds at most half of the calls that may be in flight, so that neither end waits for the other.
        """
        if not self.batches:
            return (range(index, index + 1) for index in range(len(requests)))
        held = self.files.holds if self.files.capacity else None
        return bundles(requests, min(MOST_CALLS, max(1, self.limit // 2)), self.info.max_request_bytes, held)

    async def ask_together(self, requests: Sequence[Request], timeout: float) -> AsyncIterator[list[Answer]]:
        """Sends several requests as one Batch and yields answers as they come.

        Raises:
            CallError: If the Batch itself fails. Requests that were not answered before have no answer.
        """
        limit, sent = self.info.max_request_bytes, set[bytes]()
        data = batch_of([(request, self._pieces(request, sent)) for request in requests])
        stream = call_stream(self._batch, data, timeout=timeout, metadata=self._metadata, max_bytes=limit)
        missed = set()
        async for response in stream:
            answered = []
            for index, answer in answers_of(response, requests):
                if isinstance(answer, CallError) and not_held(answer):
                    self.files.refused(answer, requests[index])
                    missed.add(index)
                else:
                    self.files.answered(requests[index])
                    answered.append((index, answer))
            if answered:
                yield answered
        again = {index: self.ask(requests[index], timeout, in_full=True) for index in missed}
        async for answered in as_they_end(again):  # one that hangs keeps no other from the log
            yield answered

    @property
    def identifies(self) -> bool:
        """True if each response names its server."""
        return bool(self.info.boot_id)

    def now(self) -> tuple[str, int]:
        """Returns the admitted start of the server, and the number of the connection."""
        return self.info.boot_id, self._connection

    async def trusted(self, ending: Ending, sent: tuple[str, int]) -> Ending:
        """Returns the ending of a call as it is to be taken: UNAVAILABLE if another server may have answered.

        Args:
            ending: The response, or the failure.
            sent: `now` when the call was sent.
        """
        if isinstance(ending, CallError):
            return await self._confirmed(ending, sent)
        try:
            self._identify(ending)
            if not self.identifies:
                await self._wait_for_look(sent[1])
        except CallError as error:
            return error
        return ending

    def _identify(self, response: Response) -> None:
        """Compares the server of a response with the one that was admitted.

        Raises:
            CallError: UNAVAILABLE, so that GetModelInfo is asked before anything else.
        """
        if not response.HasField("served_by"):
            if self.info.boot_id:
                raise CallError(
                    grpc.StatusCode.UNAVAILABLE,
                    "identity_unknown",
                    "the response does not say who gave it (served_by), and GetModelInfo has a boot_id",
                )
            return
        server, revision = response.served_by, self.info.model_revision
        if server.model_revision != revision:
            detail = f"the response is of model_revision {server.model_revision!r}, this run is of {revision!r}"
            raise CallError(grpc.StatusCode.UNAVAILABLE, "identity_changed", detail)
        if server.boot_id not in self._boots:
            raise CallError(
                grpc.StatusCode.UNAVAILABLE, "identity_unknown", "the server was restarted: it is looked at"
            )

    async def _confirmed(self, error: CallError, sent: tuple[str, int]) -> CallError:
        """Returns a failure; UNIMPLEMENTED is final only of the server that was admitted and claims otherwise still."""
        if error.code is not grpc.StatusCode.UNIMPLEMENTED or error.foreign:
            return error
        try:
            info = await self.fetch_info()
        except CallError as failure:
            return CallError(grpc.StatusCode.UNAVAILABLE, "identity_unknown", str(failure))
        same = (info.boot_id, self._connection) == sent
        if same and set(info.capabilities) >= set(self.info.capabilities):
            return error
        return CallError(grpc.StatusCode.UNAVAILABLE, "identity_changed", f"the server is another by now ({error})")

    async def _wait_for_look(self, since: int) -> None:
        """Waits until GetModelInfo agrees once more on the connection on which a call was sent.

        Raises:
            CallError: UNAVAILABLE, where it disagrees, does not answer for LOOK_SECONDS, or the connection changed.
        """
        look = self._awaited_look = self._looks + 1
        self.wanted.set()
        self.unconfirmed += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                while max(self._agreeing_look, self._refused_look) < look:
                    self._looked.clear()
                    await self._looked.wait()
        self.unconfirmed -= 1
        if self._agreeing_look < look or self._connection != since:
            text = "the server may have become another one while the call was under way, and does not say who answered"
            raise CallError(grpc.StatusCode.UNAVAILABLE, "identity_unknown", text)

    def failed(self, error: CallError) -> None:
        """Counts a failure. `reached` tells a server that is not ready from one that is not there."""
        self.last_error = describe(error)
        self.reached = not not_there(error)

    async def close(self) -> None:
        """Closes the channel; calls in flight end with CANCELLED, and no answer waits for a look any more."""
        self._refused_look = self._looks + 1
        self._tell()
        await self._channel.close()
