"""ScorerService over a `Scorer`: streams, bounds and errors, but no scoring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Any

from lyncean.arrays import np
from lyncean.rpc import MAX_MESSAGE_BYTES, InvalidRequest
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from scorer.errors import RequestError
from scorer.judges.current import summarized
from scorer.listing import listing
from scorer.metrics import FOREIGN, MODULES as METRICS, metrics
from scorer.metrics.base import Metric
from scorer.metrics.summarizer import Summarizer
from scorer.registry import Registry
from scorer.rule import AnyRule
from scorer.rules import MODULES as RULES, rules
from scorer.scoring import Asking, Scorer
from scorer.telemetry import NoTelemetry

if TYPE_CHECKING:
    import grpc

    from lyncean.rpc import Server, ServerConfig

SERVICE = pb.DESCRIPTOR.services_by_name["ScorerService"].full_name

MOST_ITEMS = 4096
"""Most items of a message."""

MOST_WORDS = 300
"""Most characters of the reason that a stream waits for."""

MOST_WAITING = 16
"""Responses queued for a slow client; with more, its items are no longer read."""

PREPARE_SECONDS = 0.5
"""Age of a stream at which the imports of its metrics begin."""

BEAT_SECONDS = 2.0
"""Silence after which an empty response tells the client that the scorer works, and what it waits for."""

SLICE_SECONDS = 0.01
"""Time that rules may run before health checks and other streams get their turn."""


class Servicer(scorer_pb2_grpc.ScorerServiceServicer):
    """Answers the two calls of ScorerService; created within the running event loop."""

    def __init__(
        self, scorer: Scorer, registry: Registry[Metric], judges: Sequence[str], telemetry: NoTelemetry
    ) -> None:
        self._scorer = scorer
        self._judges = judges
        self._telemetry = telemetry
        self._metrics = registry
        self._listing: pb.ListRulesResponse | None = None

    async def ListRules(self, request: pb.ListRulesRequest, context: Any) -> pb.ListRulesResponse:  # noqa: N802
        """Lists the rules and metrics; the first call of a run."""
        if self._listing is None:
            self._listing = await asyncio.to_thread(listing, self._scorer.registry, self._metrics)
            self._listing.judges.extend(self._judges)
        return self._listing

    async def Score(  # noqa: N802
        self, requests: AsyncIterator[pb.ScorerServiceScoreRequest], context: Any
    ) -> AsyncIterator[pb.ScorerServiceScoreResponse]:
        """Scores one stream of items."""
        with self._telemetry.stream():
            preparing = asyncio.create_task(_prepare())
            stream = _Stream(self._scorer, self._metrics, self._telemetry)
            reading = asyncio.create_task(stream.read(requests))
            beating = asyncio.create_task(stream.beat())
            try:
                while (response := await stream.responses.get()) is not None:
                    yield response
                await reading
                if context.cancelled():
                    raise asyncio.CancelledError  # the items ended because their sender went away
            except RequestError as error:
                raise InvalidRequest(error.reason, str(error)) from None
            finally:
                tasks = (reading, preparing, beating)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _prepare() -> None:
    """Imports NumPy during a long stream, while the model works: metrics are due as soon as the stream ends."""
    await asyncio.sleep(PREPARE_SECONDS)
    await asyncio.to_thread(getattr, np, "ndarray")


class _Stream:
    """One stream: reads items and queues responses; None ends the queue.

    While the scorer's limit of items wait for the judge, or MOST_WAITING responses for the client, no further message
    is read, and HTTP/2 flow control stops the client: memory stays bounded however fast items arrive.
    """

    def __init__(self, scorer: Scorer, registry: Registry[Metric], telemetry: NoTelemetry) -> None:
        self.responses: asyncio.Queue[pb.ScorerServiceScoreResponse | None] = asyncio.Queue(MOST_WAITING)
        self._scorer = scorer
        self._metrics = registry
        self._summarizer: Summarizer | None = None
        self._telemetry = telemetry
        self._slots = asyncio.Semaphore(scorer.in_flight)
        self._responded = False

    async def beat(self) -> None:
        """Queues an empty response after every few seconds without another."""
        while True:
            self._responded = False
            await asyncio.sleep(BEAT_SECONDS)
            if not self._responded and self.responses.empty():
                why = self._scorer.judge.waits_for if self._scorer.judge else ""
                self.responses.put_nowait(pb.ScorerServiceScoreResponse(waits_for=why[:MOST_WORDS]))

    async def _respond(self, response: pb.ScorerServiceScoreResponse) -> None:
        self._responded = True
        await self.responses.put(response)

    async def read(self, requests: AsyncIterator[pb.ScorerServiceScoreRequest]) -> None:
        """Reads to the client's end of the stream or to the first failure, then queues None."""
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as judged:
                first = True
                async for message in requests:
                    if first and message.metrics:
                        self._summarizer = Summarizer(message.metrics, self._metrics)
                    first = False
                    if len(message.items) > MOST_ITEMS:
                        number = f"{len(message.items):,}"
                        raise RequestError(
                            f"{number} items in a message, the limit is {MOST_ITEMS:,}", "too_many_items"
                        )
                    await self._message(message, judged)
            if self._summarizer is not None:
                summary = await summarized(self._summarizer.finish, self._scorer.judge)
                await self._respond(pb.ScorerServiceScoreResponse(summary=summary))
        except Exception as error:  # raised after the queued responses, by the call that sends them
            failure = _first(error)
        await self.responses.put(None)
        if failure is not None:
            raise failure

    async def _message(self, message: pb.ScorerServiceScoreRequest, judged: asyncio.TaskGroup) -> None:
        response = pb.ScorerServiceScoreResponse()
        with self._telemetry.message() as tally:
            clock = asyncio.get_running_loop().time
            pause = clock() + SLICE_SECONDS
            for item in message.items:
                begun = self._scorer.begin(item)
                if not isinstance(begun, pb.Verdict):
                    judged.create_task(self._ask(item, begun))
                elif item.WhichOneof("answer") == "verdict":
                    self._count(item, begun)
                    tally["", begun.outcome] += 1
                else:
                    self._count(item, begun)
                    tally[item.rule, begun.outcome] += 1
                    response.verdicts.append(begun)
                if clock() > pause:
                    await asyncio.sleep(0)
                    pause = clock() + SLICE_SECONDS
        for part in _sized(response):
            await self._respond(part)
        async with self._slots:  # a semaphore is first come, first served: returns after items that wait for a slot
            pass

    async def _ask(self, item: pb.ScoreRequest, asking: Asking) -> None:
        async with self._slots:
            with self._telemetry.waiting():
                verdict = await asking()
            self._count(item, verdict)
            self._telemetry.item(item.rule, verdict.outcome)
            await self._respond(pb.ScorerServiceScoreResponse(verdicts=[verdict]))

    def _count(self, item: pb.ScoreRequest, verdict: pb.Verdict) -> None:
        if self._summarizer is not None:
            try:
                self._summarizer.add(item, verdict)
            except RequestError as error:
                raise RequestError(f"item {item.key!r}: {error}", error.reason) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _sized(response: pb.ScorerServiceScoreResponse) -> list[pb.ScorerServiceScoreResponse]:
    """Splits a response into parts that fit a message: an extracted text may be as long as its answer."""
    verdicts = response.verdicts
    if not verdicts:
        return []
    if response.ByteSize() <= MAX_MESSAGE_BYTES or len(verdicts) == 1:
        return [response]
    half = len(verdicts) // 2
    parts = (verdicts[:half], verdicts[half:])
    return [small for part in parts for small in _sized(pb.ScorerServiceScoreResponse(verdicts=part))]


def server(
    config: ServerConfig, scorer: Scorer, judges: Sequence[str] = (), telemetry: NoTelemetry | None = None
) -> Server:
    """Returns the server of a scorer, not yet started."""
    from lyncean.rpc import Server

    servicer = Servicer(scorer, metrics(), judges, telemetry or NoTelemetry())

    def add(to: grpc.aio.Server) -> None:
        scorer_pb2_grpc.add_ScorerServiceServicer_to_server(servicer, to)

    return Server(config, SERVICE, add)


def embedded(wanted: Collection[str]) -> Servicer | None:
    """Returns a servicer without judges that runs inside another process, for the metrics `wanted`.

    None if it would run foreign code (plugins, or another harness), which needs a separate process.
    """
    known: tuple[Registry[AnyRule], Registry[Metric]] = (rules(), metrics())
    ours = all(RULES.keys() | METRICS.keys() >= set(registry.names()) for registry in known)
    return (
        Servicer(Scorer(known[0]), known[1], (), NoTelemetry()) if ours and FOREIGN.keys().isdisjoint(wanted) else None
    )
