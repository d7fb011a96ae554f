"""The state of a run: counts, log, budget and the reason of its end. Knows keys, lines and outcomes alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.budget import Budget
from lyncean.rpc.waits import OverdueError, Wait, in_thread
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.accounting import Accounting
from orchestrator.errors import EngineError
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.log import Entry, RunLog
from orchestrator.run_folder.records import verdict_line
from orchestrator.run_folder.unreadable import understood

_SYNC_SECONDS = 0.5
_DISK_SECONDS = 600.0
LEAST_DISK_SECONDS = 30.0
"""Seconds that a disk may always take: a full cache is written back meanwhile."""
_SLOWEST = 1 << 20
"""Bytes a second at which logs are read at least."""
_NO_SCORES: Mapping[str, float] = {}

T = TypeVar("T")


class Stopping(Protocol):
    """Decides while a run goes on which samples need no request any more."""

    def settled(self, key: str, outcome: Outcome, verdict: Mapping[str, Any]) -> bool:
        """Takes an item's outcome and its verdict's `score` and `scores`; returns whether there is less to ask."""

    def wanted(self, sample: str) -> bool:
        """Returns whether a sample that is not sent yet is to be sent."""


@dataclass(slots=True)
class Ledger:
    """Enters each step of a run in its counts and its log, and holds the reason of its end.

    Attributes:
        log: The run folder; requests whose answers it holds are not sent again.
        accounting: Counts as the run goes.
        budget: The budget of the run.
        stopping: Ends tasks early; None asks everything.
        draining: Reason to send nothing more; "" while calls are sent.
        stopped: Gets the error that ends the run at once.
        fewer: Called once there is less to ask.
        traced: Whether a rule reads the calls before an answer, so that they are looked up.
        disk: The wait for the disk.
    """

    log: RunLog
    accounting: Accounting = field(default_factory=Accounting)
    budget: Budget = field(default_factory=Budget)
    stopping: Stopping | None = None
    draining: str = ""
    stopped: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    fewer: Callable[[], None] = lambda: None
    traced: Callable[[str], bool] = lambda rule: True
    disk: Wait = field(default_factory=lambda: Wait("the disk", _DISK_SECONDS))
    _flushing: bool = False
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def plan(self, key: str, task: str, scored: bool) -> Entry:
        """Enters an item as planned; returns its state in the log.

        Raises:
            EngineError: If it is planned already.
        """
        before = self.log.plan(key)
        if before.planned:
            raise EngineError(f"the benchmark makes the key {key!r} twice: two rows share an id")
        if scored:
            self.accounting.plan(task)
        return before

    def settled(self, entry: Entry) -> Outcome | None:
        """Returns an item's outcome; where a stop waits for a judge that failed, the judge is asked again."""
        return None if self.stopping and entry.verdict is Outcome.UNJUDGED else entry.settled

    def used(self, usage: model.Usage) -> None:
        """Counts a call that was answered, and its tokens."""
        self.accounting.answered += 1
        self.accounting.tokens += usage.input_tokens + usage.output_tokens

    def used_tool(self, is_error: bool) -> None:
        """Counts a tool call."""
        self.accounting.tool_calls += 1
        self.accounting.tool_errors += is_error

    def add_response(self, key: str, outcome: Outcome | None, line: bytes) -> int:
        """Enters a call's line and returns its offset; outcome None means that it has an answer."""
        offset = self.log.add_response(key, outcome, line)
        self._flush_soon()
        return offset

    def add_call(self, key: str, outcome: Outcome | None, line: bytes, rule: str) -> int:
        """Enters the line of a call or of a tool's result on the way to an answer that a rule judges, as above."""
        if self.traced(rule):
            return self.add_response(key, outcome, line)
        offset = self.log.add_call(line)
        self._flush_soon()
        return offset

    def add_verdict(
        self,
        key: str,
        task: str,
        outcome: Outcome,
        line: bytes,
        score: float = 0.0,
        scores: Mapping[str, float] = _NO_SCORES,
    ) -> None:
        """Enters an item's verdict."""
        self.log.add_verdict(key, outcome, line)
        self.accounting.settle(task, outcome, score)
        if self.stopping and self.stopping.settled(key, outcome, {"score": score, "scores": scores}):
            self.fewer()
        self._flush_soon()

    def judged(self, verdict: scorer.Verdict, scoring: Mapping[str, Any], request: scorer.ScoreRequest) -> None:
        """Enters a verdict that the scorer reached on a request."""
        task = verdict.key.split("/", 1)[0]
        if verdict.outcome == Outcome.UNPARSED and not understood(verdict.reason):
            self.accounting.unread(task, verdict.key, request.text, next(iter(scoring["targets"]), ""))
        line = verdict_line(verdict, task, scoring, cut=request.cut, facts=request.facts)
        self.add_verdict(verdict.key, task, Outcome(verdict.outcome), line, verdict.score, verdict.scores)

    def stop(self, error: BaseException) -> None:
        """Ends the run at once with an error; the first one counts."""
        if not self.stopped.done():
            self.stopped.set_exception(error)

    def spent(self) -> str:
        """Returns why the budget allows no further call; "" while it does."""
        match self.budget.reached():
            case None:
                return ""
            case "deadline", _:
                return "the deadline has passed; run the same command again to resume"
            case "max_cost", bound:
                spent = f"{self.budget.cost:.6g} so far in this run, without judges"
                return (
                    f"the budget of {bound:,g} {self.budget.currency} is spent ({spent}); "
                    "run the command again with more to resume"
                )
            case _, bound:
                return (
                    f"the budget of {bound:,} tokens is spent ({self.budget.tokens:,} so far in this run); "
                    "run the command again with more to resume"
                )

    async def keep(self) -> None:
        """Makes the log survive a power cut, at once if a caller waits for it, else about twice a second."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SYNC_SECONDS):
                    await self._hurry.wait()
            self._hurry.clear()
            waiting, self._waiting = self._waiting, []
            await self.sync()
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def synced(self) -> None:
        """Waits until the log's present lines would survive a power cut; concurrent waiters share one sync."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._hurry.set()
        await done

    async def sync(self) -> None:
        """Makes the log's present lines survive a power cut, answers before verdicts.

        Raises:
            RunLogError: If a log is missing or cannot be written, or the disk does not answer.
        """
        verdicts = self.log.begin_sync()
        await self.on_disk(self.log.sync_answers)
        await self.on_disk(lambda: self._keep_verdicts(verdicts))

    def _keep_verdicts(self, count: int) -> None:
        self.log.write_verdicts(count)
        self.log.sync_verdicts()

    async def on_disk(self, work: Callable[[], T]) -> T:
        """Returns the result of work on the disk, done in a thread that is no longer awaited once it is abandoned.

        Raises:
            RunLogError: If the folder is another process's by now, the disk does not answer, or as the work does.
        """
        return await self._bounded(self.disk, work)

    async def reading(self, work: Callable[[], T]) -> T:
        """Returns the result of work that reads the logs, as `on_disk` does; longer ones may take longer.

        Raises:
            RunLogError: As of `on_disk`.
        """
        return await self._bounded(Wait(self.disk.what, self.disk.limit + self.log.size / _SLOWEST), work)

    async def _bounded(self, wait: Wait, work: Callable[[], T]) -> T:
        def in_the_folder() -> T:
            self.log.check_there()
            return work()

        wait.begin()
        try:
            return await wait.bound(in_thread(in_the_folder, "disk"))
        except OverdueError:
            raise self.log.give_up(f"{wait.what} did not answer for {wait.limit:.0f} s") from None
        finally:
            wait.end()

    def close(self) -> None:
        """Writes as much of the log as possible, at the end of the run or after its error."""
        if not self.stopped.cancel():
            self.stopped.exception()  # the error that is raised may have come first
        with contextlib.suppress(RunLogError):
            self.log.flush()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Writes the answers here and not in a thread: a slot that is free again has its answer in the log.

        Otherwise more would be asked again after SIGKILL than there are slots. The system takes these few bytes into
        its cache; it is fsync that waits for the disk.
        """
        self._flushing = False
        try:
            self.log.flush()
        except Exception as error:  # the event loop would only log it
            self.stop(error)
