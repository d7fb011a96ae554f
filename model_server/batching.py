"""Dynamic batching: requests that arrive together run together, and no request fails because of another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lyncean.rpc import DeadlineExceeded, InternalFailure, StatusError
from model_server.admission import queue_full
from model_server.backend import Call
from model_server.metrics import Metrics

log = logging.getLogger(__name__)
Work = TypeVar("Work")
Result = TypeVar("Result")


class OutOfMemory(Exception):
    """Raised by a run that did not fit, after it has freed what it held: its jobs run again in smaller batches."""


_GROWTH = 1 / 32


class TokenBudget:
    """Bounds the tokens of a batch; learns from batches that did not fit into memory.

    A batch counts as its rows times the longest prompt and the longest output: what is padded takes memory too. A
    batch that does not fit halves its own size into the limit; each that fits and fills at least half of the limit
    raises it by a 32nd, so that a passing shortage (another process on the device) is forgotten.

    Args:
        limit: Tokens of a batch at first; infinity where it is not known.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit

    @staticmethod
    def tokens(jobs: Sequence[Job[Any, Any]]) -> int:
        """Returns the padded tokens of a batch."""
        return len(jobs) * (max(job.length for job in jobs) + max(job.output for job in jobs))

    def first_batch(self, jobs: Sequence[Job[Work, Result]], max_batch: int) -> list[Job[Work, Result]]:
        """Returns the longest beginning of the jobs that the limit allows; the first job always."""
        batch = [jobs[0]]
        for job in jobs[1:max_batch]:
            if self.tokens([*batch, job]) > self.limit:
                break
            batch.append(job)
        return batch

    def failed(self, tokens: int) -> None:
        """Shrinks the limit after a batch of so many tokens did not fit."""
        self.limit = min(self.limit, max(1, tokens / 2))

    def fitted(self, tokens: int, share: float = 1.0) -> None:
        """Raises the limit after a batch of so many tokens fitted, or a share of its rows, if these came near it."""
        if tokens >= self.limit / 2:
            self.limit *= 1 + _GROWTH * share


@dataclass(eq=False)
class Job(Generic[Work, Result]):
    """One request on its way through the model.

    Attributes:
        work: What to run.
        key: Jobs of different keys never run together.
        length: Tokens of the prompt. Jobs of similar length run together, so that little is padded.
        output: Most output tokens.
        call: The request's lifetime.
    """

    work: Work
    key: Hashable
    length: int
    output: int
    call: Call
    future: asyncio.Future[Result]
    loop: asyncio.AbstractEventLoop
    queued: float = field(default_factory=time.monotonic)
    resolved: bool = False

    def resolve(self, result: Result | Exception) -> None:
        """Answers the request; from any thread, once, as soon as the answer is there."""
        if self.resolved:
            return
        self.resolved = True
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._settle, result)

    def _settle(self, result: Result | Exception) -> None:
        if self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Batcher(Generic[Work, Result]):
    """Collects jobs into batches and runs them one batch at a time, in a thread of its own.

    Args:
        run: Runs one batch and resolves its jobs. May resolve early, take more jobs by `join`, and raise OutOfMemory:
            the jobs that are not resolved then run in batches of half the tokens. After any other error they run one
            by one.
        max_batch: Most jobs of a batch.
        wait: Longest wait of the oldest job for others, in seconds; while the model is busy
            jobs gather anyway.
        max_queue: Most jobs waiting; one more is refused.
        metrics: The server's counters.

    Attributes:
        budget: Tokens that a batch may have.
        wait: The longest wait.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Job[Work, Result]]], None],
        *,
        max_batch: int,
        wait: float,
        max_queue: int,
        metrics: Metrics,
    ) -> None:
        self._run = run
        self.budget = TokenBudget()
        self.max_batch = max_batch
        self.wait = wait
        self._max_queue = max_queue
        self._metrics = metrics
        self._queue: list[Job[Work, Result]] = []
        self._lock = threading.Lock()  # of the queue, which the model's thread takes from as well
        self._running: list[Job[Work, Result]] = []
        self._peak = 0
        self._joinable = False
        self._closed = False
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._task: asyncio.Task[None] | None = None

    async def submit(self, work: Work, key: Hashable, length: int, call: Call, output: int = 0) -> Result:
        """Queues one job and waits for its result; `call.started` is set when the model takes it.

        Args:
            work: What to run.
            key: Jobs of different keys never run together.
            length: Tokens of the prompt.
            call: The request's lifetime.
            output: Most output tokens.

        Raises:
            Overloaded: If the queue is full.
            DeadlineExceeded: If its time ran out in the queue.
        """
        waiting = len(self._queue)
        if waiting >= self._max_queue:
            raise queue_full(waiting, self._max_queue)
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = loop.create_task(self._work())
        job: Job[Work, Result] = Job(work, key, length, output, call, loop.create_future(), loop)
        with self._lock:
            self._queue.append(job)
        self._metrics.queued.set(len(self._queue))
        self._arrived.set()
        try:
            return await job.future
        except asyncio.CancelledError:
            call.cancel()
            self._dequeue([job])
            raise

    def join(self) -> list[Job[Work, Result]]:
        """Returns jobs that join those that run, for which the budget and the batch have room; called by the run.

        Takes the oldest waiting jobs in order, so that none is overtaken; it stops at a job of another key.
        """
        if not self._joinable or self._closed or not self._queue:
            return []
        running = [job for job in self._running if not job.resolved]
        joining: list[Job[Work, Result]] = []
        with self._lock:
            for job in self._queue:
                batch = [*running, *joining, job]
                # Beside rows that run, a prompt that is prefilled takes memory before it joins them.
                read = sum(entry.length for entry in batch[len(running) :]) if running else 0
                if job.key != self._running[0].key or len(batch) > self.max_batch:
                    break
                if self.budget.tokens(batch) + read > self.budget.limit:
                    break
                joining.append(job)
            del self._queue[: len(joining)]
        if joining:
            self.budget.fitted(self._peak, len(joining) / len([*running, *joining]))
            self._peak = 0
            self._metrics.queued.set(len(self._queue))
            self._running += joining
            self._begin(joining, [*running, *joining])
        return joining

    async def close(self) -> None:
        """Stops taking batches; jobs still waiting are left to their callers' deadlines."""
        self._closed = True
        if self._task:
            self._task.cancel()
        self._thread.shutdown(wait=False)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._drop_finished()
            if not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            first = self._queue[0]
            left = first.queued + self.wait - time.monotonic()
            alike = self._mates(first)
            batch = self.budget.first_batch(alike, self.max_batch)
            if len(batch) < self.max_batch and len(batch) == len(alike) and left > 0:
                self._arrived.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), left)
                continue
            self._dequeue(batch)
            await loop.run_in_executor(self._thread, self._run_batch, batch)

    def _drop_finished(self) -> None:
        over = [job for job in self._queue if job.call.over]
        self._dequeue(over)
        for job in over:
            job.resolve(DeadlineExceeded("deadline_in_queue", "the deadline passed before the model was free"))

    def _dequeue(self, jobs: Sequence[Job[Work, Result]]) -> None:
        with self._lock:
            self._queue = [job for job in self._queue if job not in jobs]
        self._metrics.queued.set(len(self._queue))

    def _mates(self, first: Job[Work, Result]) -> list[Job[Work, Result]]:
        """Returns the oldest job, then the jobs of its key sorted by how close their length is."""
        alike = max(16, first.length // 4)
        mates = [j for j in self._queue if j.key == first.key and abs(j.length - first.length) <= alike]
        mates.sort(key=lambda job: (job is not first, abs(job.length - first.length), job.queued))
        return mates

    def _run_batch(self, batch: list[Job[Work, Result]]) -> None:
        """Runs a batch; jobs that did not fit or failed together run again in smaller batches."""
        waiting, alone = [batch], False
        while waiting:
            jobs = waiting.pop(0)
            part = self.budget.first_batch(jobs, self.max_batch)
            if len(part) < len(jobs):
                waiting.insert(0, jobs[len(part) :])
                jobs = part
            self._joinable = not waiting and not alone
            failure = self._attempt(jobs)  # no exception is being handled from here on, and none holds the run's frames
            jobs = self._running  # with those that joined
            open_ = [job for job in jobs if not job.resolved]
            if isinstance(failure, OutOfMemory):
                self.budget.failed(self.budget.tokens(open_ or jobs))
            elif failure is None:
                self.budget.fitted(self._peak)
            self._metrics.token_budget.set(self.budget.limit)
            if len(open_) > 1 and isinstance(failure, OutOfMemory):
                self._metrics.splits.inc()
                log.warning(
                    "out of memory with %d requests together: from now on at most %d tokens a batch",
                    len(open_),
                    self.budget.limit,
                )
                waiting.insert(0, open_)
            elif len(open_) > 1 and failure:
                # Any of the jobs may be at fault, and no answer may depend on the rest of its batch.
                waiting[:0] = [[job] for job in open_]
                alone = True
            else:
                if isinstance(failure, OutOfMemory):
                    message = f"the request alone does not fit into memory: {failure}"
                    failure = InternalFailure("out_of_memory", message)
                for job in open_:
                    job.resolve(failure or InternalFailure("no_answer", "the model gave no answer"))

    def _attempt(self, jobs: list[Job[Work, Result]]) -> Exception | None:
        """Runs one batch once; returns its failure without a traceback, whose frames would keep tensors alive."""
        self._running, self._peak = list(jobs), 0
        self._begin(jobs, jobs)
        try:
            self._run(jobs)
        except (OutOfMemory, StatusError) as error:
            return error.with_traceback(None)
        except Exception as error:
            log.error("a batch of %d failed", len(self._running), exc_info=error)
            return InternalFailure(
                "model_failed", f"{type(error).__name__} in the model; the server's log has the traceback"
            )
        return None

    def _begin(self, jobs: Sequence[Job[Work, Result]], together: Sequence[Job[Work, Result]]) -> None:
        """Records that jobs begin to run, and the batch that they run in."""
        now = time.monotonic()
        for job in jobs:
            job.call.started = now
            self._metrics.queue_seconds.observe(now - job.queued)
        self._metrics.batch.observe(len(together))
        self._peak = max(self._peak, self.budget.tokens(together))
