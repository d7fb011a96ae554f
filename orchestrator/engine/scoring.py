"""The scorer's side of a run: answers out and verdicts in over one stream, again after each break."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc

from lyncean.rpc import CallError, Credentials, call, check_size, dial, parsing
from lyncean.rpc.channel import Method
from lyncean.rpc.patience import Patience
from lyncean.rpc.waits import OverdueError, Waits
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.engine.check import bad_response, checked_summary, checked_verdict
from orchestrator.engine.failures import describe, dialled
from orchestrator.engine.pool import REACH_SECONDS, Notify
from orchestrator.engine.replica import backoff
from orchestrator.engine.resolve import Endpoint
from orchestrator.errors import ConfigError, EngineError, IncompleteError

_BATCH_ITEMS = 256
_FULL_BATCH = 64
_GATHER_SECONDS = 0.02
_BATCH_BYTES = 4 * 1024 * 1024
_PENDING_ITEMS = 4096
_PENDING_BYTES = 32 * 1024 * 1024
_LIST_SECONDS = 10.0
_TELL_SECONDS = 3.0
_LEAST_SILENCE = 10.0
"""Seconds for which a scorer may always be silent: it sends a sign of life every few seconds."""
_DRAIN_SECONDS = 5.0
"""The same for a run that stops."""
_SERVICE = scorer.DESCRIPTOR.services_by_name["ScorerService"].full_name

_T = TypeVar("_T")
Scoring = Mapping[str, Any]
_STARTED_WITHOUT = {"foreign_tasks", "task_code"}
"""Reasons of a scorer that was started without an option that the run needs."""
OnVerdict = Callable[[scorer.Verdict, Scoring, scorer.ScoreRequest], None]


class ScorerClient:
    """Keeps items that are not yet acknowledged and sends them again after a break.

    It holds a bounded number of items: items that do not fit (`room` is False) stay in the run
    log and are sent later.

    Args:
        endpoint: The scorer's address; None beside a channel.
        credentials: How to dial.
        patience: Seconds for which a scorer that does not answer is tried again.
        notify: Gets one line for people when the scorer is waited for.
        on_verdict: Gets each verdict with the scoring of the item's line and the request that was sent.
        channel: A channel to the scorer; None dials the endpoint.
        waits: The run's waits, which people see.

    Attributes:
        needs: Rule -> the evidence that it reads, for rules that read some; known once rules are listed.
    """

    def __init__(
        self,
        endpoint: Endpoint | None,
        credentials: Credentials,
        *,
        patience: float,
        notify: Notify = lambda _: None,
        on_verdict: OnVerdict = lambda _verdict, _scoring, _request: None,
        channel: Any = None,
        waits: Waits | None = None,
    ) -> None:
        self.endpoint = endpoint or "this process"
        self.on_verdict = on_verdict
        self._patience = patience
        waits, name = waits or Waits(), f"the scorer at {self.endpoint}"
        self._silence_wait = waits.add(name, max(patience, _LEAST_SILENCE))
        self._retry_wait = waits.add(name, patience)  # from the first failure until something is scored
        self._notify = notify
        self._metadata = credentials.metadata
        self._dialled = dialled(credentials)
        self._channel = channel or dial(str(endpoint), credentials)
        self._list: Method[Awaitable[scorer.ListRulesResponse | None]] = self._channel.unary_unary(
            f"/{_SERVICE}/ListRules",
            scorer.ListRulesRequest.SerializeToString,
            parsing(scorer.ListRulesResponse.FromString),
        )
        self._score: Any = self._channel.stream_stream(
            f"/{_SERVICE}/Score",
            scorer.ScorerServiceScoreRequest.SerializeToString,
            parsing(scorer.ScorerServiceScoreResponse.FromString),
        )
        self.needs: Mapping[str, frozenset[str]] = {}
        self._pending: dict[str, tuple[scorer.ScoreRequest, Scoring, int]] = {}
        self._unsent: deque[str] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._closing = self._retry_reported = False

    @property
    def room(self) -> bool:
        """True if another item can be taken."""
        return len(self._pending) < _PENDING_ITEMS and self._bytes < _PENDING_BYTES

    async def list_rules(self) -> scorer.ListRulesResponse:
        """Lists the scorer's rules.

        A scorer that was reached and is not ready, or slow to answer, is waited for as long as
        patience lasts; one that was never reached for REACH_SECONDS.

        Raises:
            IncompleteError: If the scorer cannot be reached.
            ConfigError: If it refuses the credential.
        """
        failures, why = 0, "no answer yet"
        # The status alone does not tell a server that is slow from an address at which nobody listens.
        patience = Patience(self._patience, REACH_SECONDS, self._channel)
        telling = asyncio.get_running_loop().call_later(
            _TELL_SECONDS, lambda: self._notify(f"waiting for the scorer at {self.endpoint}: {why}")
        )
        try:
            while True:
                try:
                    request = scorer.ListRulesRequest()
                    rules = await call(self._list, request, timeout=_LIST_SECONDS, metadata=self._metadata)
                    if rules is None:
                        raise bad_response("its bytes are no ListRulesResponse")
                    self.needs = {rule.name: frozenset(rule.needs) for rule in rules.rules if rule.needs}
                    return rules
                except CallError as error:
                    if error.consequence.retries == 0 or error.code is grpc.StatusCode.UNIMPLEMENTED:
                        raise self._refusal(error) from None
                    if patience.over():
                        raise self._silence(error) from None
                    why = describe(error)
                failures += 1
                await asyncio.sleep(backoff(failures))
        finally:
            telling.cancel()

    def put(self, request: scorer.ScoreRequest, scoring: Scoring) -> None:
        """Takes an item to score; call it only while there is `room`."""
        size = request.ByteSize()
        if not self._pending:
            self._silence_wait.begin()
        self._pending[request.key] = (request, scoring, size)
        self._bytes += size
        self._unsent.append(request.key)
        self._wake.set()

    async def wait_for_room(self) -> None:
        """Waits until there is room again."""
        while not self.room:
            self._moved.clear()
            await self._moved.wait()

    async def run(self) -> None:
        """Scores until `finish`, and can be run again after it; reconnects as long as patience lasts.

        Raises:
            IncompleteError: If the scorer stays away for longer.
            EngineError: If it finds an item at fault: a defect of the benchmark.
        """
        patience = None
        while not (self._closing and not self._pending):
            await self._something_to_do()
            before = len(self._pending)
            try:
                await self._heard(self._stream())
                continue
            except CallError as error:
                patience = await self._wait(None if len(self._pending) < before else patience, error)
        self._closing = False

    async def _wait(self, patience: Patience | None, error: CallError) -> Patience:
        """Waits before the next try; None begins a new patience. Raises if another try is of no use."""
        if patience is None:
            patience = Patience(self._patience)
            self._retry_wait.begin()
            self._retry_reported = False
        self._retry_wait.alive(describe(error))
        if self._retry_wait.is_long and not self._retry_reported:
            self._retry_reported = True
            self._notify(str(self._retry_wait))  # results have no live line
        if patience.ends(error):
            raise self._refusal(error) from error
        await asyncio.sleep(backoff(patience.failures))
        return patience

    async def _heard(self, stream: Awaitable[_T]) -> _T:
        """Returns the result of a stream.

        Raises:
            IncompleteError: Nothing was heard of the scorer for longer than patience lasts.
        """
        try:
            result = await self._silence_wait.bound(stream, self._notify)
            self._retry_wait.end()
            return result
        except OverdueError:
            raise self._silence(CallError(grpc.StatusCode.DEADLINE_EXCEEDED, "silent", "it keeps silent")) from None
        finally:
            self._silence_wait.end()

    def hurry(self) -> None:
        """Gives a silent scorer little time from now on: the run stops."""
        self._silence_wait.limit = min(self._silence_wait.limit, _DRAIN_SECONDS)

    async def finish(self) -> None:
        """Waits until every item is acknowledged; `run` then returns."""
        self._closing = True
        self._wake.set()
        while self._pending:
            self._moved.clear()
            await self._moved.wait()

    async def summarize(
        self, items: Callable[[], Iterable[scorer.ScoreRequest]], metrics: Iterable[scorer.MetricSpec]
    ) -> scorer.Summary:
        """Returns the results of settled items, which carry their verdicts; reconnects as long as patience lasts.

        Args:
            items: Begins the items anew for each try.
            metrics: The results.

        Raises:
            IncompleteError: If the scorer stays away for longer.
            EngineError: If it finds an item or a metric at fault.
            Exception: The exception that the items raise.
        """
        summary = await self._patiently(items, tuple(metrics))
        if summary is None:
            raise EngineError(
                f"the scorer at {self.endpoint} ended the stream without a summary: a defect of the scorer"
            )
        return summary

    async def try_out(self, items: Iterable[scorer.ScoreRequest]) -> None:
        """Tests whether items can be scored, in a stream of their own; raises as `summarize` does."""
        await self._patiently(lambda: items, ())

    async def _patiently(
        self, items: Callable[[], Iterable[scorer.ScoreRequest]], specs: Sequence[scorer.MetricSpec]
    ) -> scorer.Summary | None:
        """Returns the summary of one stream, None if it requests none; tries again while the scorer is away."""
        patience = None
        while True:
            try:
                return await self._heard(self._summarize(items(), specs))
            except CallError as error:
                patience = await self._wait(patience, error)

    async def _summarize(
        self, items: Iterable[scorer.ScoreRequest], metrics: Sequence[scorer.MetricSpec]
    ) -> scorer.Summary | None:
        problems: list[Exception] = []
        sent: Counter[str] = Counter()

        self._silence_wait.begin()

        def counted() -> Iterator[scorer.ScoreRequest]:
            for item in items:
                sent[item.verdict.outcome] += 1
                yield item

        async def requests() -> AsyncIterator[scorer.ScorerServiceScoreRequest]:
            try:
                message, size = scorer.ScorerServiceScoreRequest(metrics=metrics), 0
                for item in counted():
                    message.items.append(item)
                    size += item.ByteSize()
                    if len(message.items) == _BATCH_ITEMS or size > _BATCH_BYTES:
                        self._silence_wait.begin()  # it takes items
                        yield message
                        message, size = scorer.ScorerServiceScoreRequest(), 0
                if message.items or message.metrics:
                    yield message
            except Exception as error:
                problems.append(error)  # the stream ends here, and its summary is of no use

        summary = None
        try:
            async for reply in self._score(requests(), metadata=self._metadata):
                if reply is None:
                    raise bad_response("its bytes are no ScorerServiceScoreResponse")
                self._silence_wait.alive(reply.waits_for)
                if reply.HasField("summary"):
                    summary = reply.summary
        except grpc.aio.AioRpcError as error:
            problems.append(CallError.from_rpc(error))
        if problems:
            raise problems[0]
        return checked_summary(summary, sent, metrics) if metrics else None

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()

    async def _something_to_do(self) -> None:
        while not self._pending and not self._closing:
            self._wake.clear()
            await self._wake.wait()

    async def _stream(self) -> None:
        """One stream, from its opening to `finish` or a break."""
        self._unsent = deque(self._pending)
        self._wait_on()
        stream = self._score(metadata=self._metadata)
        reading = asyncio.create_task(self._read(stream))
        try:
            while not reading.done():
                if self._unsent:
                    if len(self._unsent) < _FULL_BATCH and not self._closing:
                        # A message costs as much as scoring twenty small items: let some gather.
                        await asyncio.sleep(_GATHER_SECONDS)
                    await stream.write(self._batch())
                elif self._closing:
                    # The scorer ends the stream after its last verdict: the items left out are then known.
                    await stream.done_writing()
                    self._silence_wait.begin()
                    break
                else:
                    self._wake.clear()
                    await asyncio.wait(
                        {reading, waking := asyncio.ensure_future(self._wake.wait())},
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    waking.cancel()
            await reading
        except grpc.aio.AioRpcError as error:
            raise CallError.from_rpc(error) from None
        except asyncio.InvalidStateError:
            # The error of a write tells only that the stream has ended; its status has the reason.
            await reading
        finally:
            reading.cancel()
            stream.cancel()

    async def _read(self, stream: Any) -> None:
        try:
            async for reply in stream:
                if reply is None:
                    raise bad_response("its bytes are no ScorerServiceScoreResponse")
                try:
                    for verdict in reply.verdicts:
                        checked_verdict(verdict, self._pending.get(verdict.key, (None,))[0])
                        request, scoring, size = self._pending.pop(verdict.key)
                        self._bytes -= size
                        self.on_verdict(verdict, scoring, request)
                finally:
                    self._moved.set()  # the last item may be done, though what follows breaks the contract
                if reply.verdicts:
                    self._retry_wait.end()
                    self._wait_on()
                else:
                    self._silence_wait.alive(reply.waits_for)
                if self._closing:
                    self._wake.set()
        except grpc.aio.AioRpcError as error:
            raise CallError.from_rpc(error) from None
        if self._pending:
            raise CallError(grpc.StatusCode.UNAVAILABLE, "stream_ended", "the scorer ended the stream")

    def _wait_on(self) -> None:
        if self._pending or self._closing:
            self._silence_wait.begin()
        else:
            self._silence_wait.end()

    def _batch(self) -> scorer.ScorerServiceScoreRequest:
        message = scorer.ScorerServiceScoreRequest()
        size = 0
        while self._unsent and len(message.items) < _BATCH_ITEMS and size < _BATCH_BYTES:
            request, _, bytes_ = self._pending[self._unsent.popleft()]
            message.items.append(request)
            size += bytes_
        check_size(message)
        return message

    def _refusal(self, error: CallError) -> EngineError:
        if error.consequence.abort:
            return ConfigError(f"the scorer at {self.endpoint} refuses the credential: {error}")
        if error.consequence.retries is None:
            return self._silence(error)
        if error.code is grpc.StatusCode.UNIMPLEMENTED and error.reason == "unimplemented":
            return ConfigError(f"{self.endpoint} does not speak lyncean.scorer.v1.ScorerService: is that the scorer?")
        kind = ConfigError if error.reason in _STARTED_WITHOUT else EngineError
        return kind(f"the scorer at {self.endpoint} cannot score this: {error}")

    def _silence(self, error: CallError) -> IncompleteError:
        return IncompleteError(
            f"the scorer at {self.endpoint} does not answer ({describe(error)}); every answer is safe: "
            f"start it, {self._dialled}, and run the same command again to resume"
        )
