"""Who is asked what, when: one queue, every replica pulling as it has room, failures sent elsewhere."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from lynceus.rpc import CallError
from orchestrator.engine.budget import Budget
from orchestrator.engine.errors import ConfigError
from orchestrator.engine.pool import Pool
from orchestrator.engine.replica import Replica, Response, backoff
from orchestrator.engine.wire import Request

_REPLICA_AT_FAULT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


@dataclass(slots=True, eq=False)
class Job:
    """One call on its way to an answer.

    Attributes:
        request: What is sent.
        owner: Whatever the caller wants back with the result.
        attempts: How often it was sent.
    """

    request: Request
    owner: Any
    attempts: int = 0
    failures: Counter[grpc.StatusCode] = field(default_factory=Counter)
    first_failure: float = 0.0
    avoid: Replica | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a job: exactly one of `response` and `error` is set.

    Attributes:
        replica: Address of the replica that was asked last.
        seconds: How long the last call took.
        started: When it began, seconds since the epoch.
    """

    job: Job
    response: Response | None
    error: CallError | None
    replica: str
    seconds: float
    started: float


class Dispatcher:
    """Sends jobs to the replicas of one pool. Each job ends in exactly one call of `done`.

    Args:
        pool: The replicas.
        done: Gets each job's result, in the event loop.
        stop: Gets the reason when no further call can succeed.
        timeout: Deadline of one call, seconds.
        patience: Seconds for which a job that meets full or absent servers is sent again.
        budget: What may be spent.
    """

    def __init__(
        self,
        pool: Pool,
        done: Callable[[Result], None],
        stop: Callable[[BaseException], None],
        *,
        timeout: float,
        patience: float,
        budget: Budget,
    ) -> None:
        self.pool = pool
        self._done = done
        self._stop = stop
        self._timeout = timeout
        self._patience = patience
        self._budget = budget
        self._fresh: deque[Job] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._again: deque[Job] = deque()
        self._order = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        pool.changed = self.pump

    @property
    def waiting(self) -> int:
        """Jobs that are not in flight."""
        return len(self._fresh) + len(self._later) + len(self._again)

    @property
    def in_flight(self) -> int:
        """Calls under way."""
        return len(self._calls)

    def submit(self, job: Job) -> None:
        """Takes a job."""
        idle = not self._fresh
        self._fresh.append(job)
        if idle:
            self.pump()

    def drain(self) -> None:
        """Sends nothing more; calls in flight end and jobs that wait are dropped unanswered."""
        self._draining = True
        self._fresh.clear()
        self._later.clear()
        self._again.clear()

    async def finish(self) -> None:
        """Waits for the calls in flight."""
        while self._calls:
            await asyncio.wait(self._calls)

    def cancel(self) -> None:
        """Ends the calls in flight without a result."""
        self.drain()
        for task in self._calls:
            task.cancel()

    def pump(self, only: Replica | None = None) -> None:
        """Hands jobs to replicas with room until either runs out; to `only` if given."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._again.append(heapq.heappop(self._later)[2])
        while not self._draining:
            wait = self._budget.wait()
            if wait > 0:
                self._wake(wait)
                return
            pair = self._next(only)
            if pair is None:
                break
            replica, job = pair
            self._budget.sent()
            replica.in_flight += 1
            task = asyncio.create_task(self._attempt(replica, job))
            self._calls.add(task)
            task.add_done_callback(self._ended)
        if self._later and not self._draining:
            self._wake(self._later[0][0] - now)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        error = None if task.cancelled() else task.exception()
        if error:
            # A defect of ours or a run folder that cannot be written: without this the run would wait for ever.
            self._stop(error)

    def _next(self, only: Replica | None) -> tuple[Replica, Job] | None:
        for index, job in enumerate(self._again):
            replica = self._roomiest(job.avoid)
            if replica is None and job.avoid and job.avoid.free > 0 and self.pool.ready == [job.avoid]:
                replica = job.avoid
            if replica:
                del self._again[index]
                return replica, job
        if not self._fresh:
            return None
        replica = only if only and only.free > 0 else None if only else self._roomiest()
        return (replica, self._fresh.popleft()) if replica else None

    def _roomiest(self, avoid: Replica | None = None) -> Replica | None:
        best, most = None, 0.0
        for replica in self.pool.replicas.values():
            room = replica.free
            if room > 0 and replica is not avoid and room / replica.limit > most:
                best, most = replica, room / replica.limit
        return best

    def _wake(self, seconds: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0.001), self.pump)

    async def _attempt(self, replica: Replica, job: Job) -> None:
        job.attempts += 1
        started, clock = time.time(), time.perf_counter()
        response, failure = None, None
        try:
            response = await replica.ask(job.request, self._timeout)
        except CallError as error:
            failure = error
        finally:
            replica.in_flight -= 1
        result = Result(job, response, failure, replica.address, time.perf_counter() - clock, started)
        if failure is None:
            replica.succeeded()
            self._done(result)
        elif not self._sent_again(replica, job, failure):
            self._done(result)
        self.pump(replica)

    def _sent_again(self, replica: Replica, job: Job, error: CallError) -> bool:
        """Draws the consequence of a failure; returns False where the job has come to its end."""
        consequence = error.consequence
        if consequence.abort:
            self._stop(ConfigError(f"{replica.address} refuses the credential: {error}"))
            return True
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            replica.overloaded()
        elif error.code in _REPLICA_AT_FAULT:
            self.pool.suspect(replica, error)
        now = time.monotonic()
        job.first_failure = job.first_failure or now
        job.failures[error.code] += 1
        if consequence.retries is None:
            again = now - job.first_failure < self._patience
        else:
            again = job.failures[error.code] <= consequence.retries
        if not again:
            return False
        if self._draining:
            return True
        job.avoid = replica
        # With somewhere else to go there is nothing to wait for, unless queues are full there too.
        elsewhere = any(other is not replica for other in self.pool.ready)
        tries = sum(job.failures.values()) - elsewhere
        if tries:
            self._order += 1
            heapq.heappush(self._later, (now + backoff(tries), self._order, job))
        else:
            self._again.append(job)
        return True
