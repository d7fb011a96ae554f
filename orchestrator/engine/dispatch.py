"""Dispatch of calls: one queue for all replicas; failed calls go to other replicas."""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import grpc

from lyncean.rpc import SETTING_REFUSED, CallError
from lyncean.rpc.budget import Budget
from lyncean.rpc.patience import Patience
from orchestrator.engine.balance import LeastLoaded
from orchestrator.engine.batch import Ending
from orchestrator.engine.failures import describe
from orchestrator.engine.jobs import Job, Result, Sent
from orchestrator.engine.pool import Pool
from orchestrator.engine.replica import Health, Replica, backoff
from orchestrator.engine.wire import is_repeat
from orchestrator.errors import ConfigError

_WAITING_SHARE = 0.125
"""Share of the timeout below which every answer of a replica must stay for further jobs to wait there."""
_RECENT = 0.01
"""Weight of an answer's duration in the mean over all replicas."""
_TOLD_FAILURES = 3
"""Failures of a request after which people are notified."""
_REPLICA_AT_FAULT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


class Dispatcher:
    """Sends jobs to the replicas of one pool. Each job ends in exactly one call of `done`.

    Args:
        pool: The replicas.
        done: Gets each job's result, in the event loop.
        stop: Gets the reason when no further call can succeed.
        timeout: Deadline of one call, seconds.
        patience: Seconds for which a job that meets full or absent servers is sent again.
        budget: The budget of the run.
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
        self._sent = 0
        self._seconds = 0.0
        self._answered = -math.inf
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

    @property
    def pause(self) -> str:
        """Reason and end of the wait of jobs to be sent; "" if none waits long."""
        if not self.waiting:
            return ""
        if reason := self.pool.pause:
            return reason
        jobs = [entry[2] for entry in self._later if entry[2].streak.count >= _TOLD_FAILURES]
        some = f"{len(jobs):,} request{'s' if len(jobs) > 1 else ''}"
        return f"{some} failed and will be sent again: {jobs[0].failure}" if jobs else ""

    def submit(self, job: Job) -> None:
        """Takes a job."""
        idle = not self._fresh
        self._fresh.append(job)
        if idle:
            # Not at once: jobs that come together can be sent together.
            asyncio.get_running_loop().call_soon(self.pump)

    def drain(self) -> None:
        """Sends nothing more; calls in flight end and jobs that wait are dropped unanswered."""
        self._draining = True
        self._fresh.clear()
        self._later.clear()
        self._again.clear()

    def drop(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Removes waiting jobs that are no longer wanted, and returns them."""
        dropped = [job for job in (*self._fresh, *self._again, *(entry[2] for entry in self._later)) if unwanted(job)]
        if dropped:
            gone = set(dropped)
            self._fresh = deque(job for job in self._fresh if job not in gone)
            self._again = deque(job for job in self._again if job not in gone)
            self._later = [entry for entry in self._later if entry[2] not in gone]
            heapq.heapify(self._later)
        return dropped

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
        """Hands jobs to replicas with free slots until either runs out; to `only` if given."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._again.append(heapq.heappop(self._later)[2])
        handed: dict[Replica, list[list[Job]]] = {}
        balance = LeastLoaded(() if only and not self._again else self.pool.replicas.values())
        wait = 0.0
        while not (self._draining or self._budget.reached()) and (wait := self._budget.wait()) <= 0:
            pair = self._next(only, balance)
            if pair is None:
                break
            replica, job = pair
            repeats = self._repeats(replica, job)
            if repeats is None:
                self._fresh.appendleft(job)
                break
            for sent in (jobs := [job, *repeats]):
                sent.attempts += 1
                self._budget.sent()
            replica.in_flight += len(jobs)
            self._sent += len(jobs)
            handed.setdefault(replica, []).append(jobs)
        for replica, taken in handed.items():
            self._send(replica, taken)
        if self._draining:
            return
        if wait > 0:
            self._wake(wait)
        elif self._later:
            self._wake(self._later[0][0] - now)

    def _repeats(self, replica: Replica, job: Job) -> list[Job] | None:
        """Takes the repeats of a job's prompt, which are sent with it, from the queue. None if they wait for room.

        They wait for the replica's current work, so that their shared prompt is prefilled once, not for each free slot.
        """
        if job.prompt is None or job.alone:
            return []
        most = min(replica.samples, replica.limit)
        count = 0
        while count + 1 < min(most, 1 + len(self._fresh)) and self._fresh[count].prompt is job.prompt:
            if not is_repeat(self._fresh[count].request, job.request, count + 1):
                break  # a repeat between them became unnecessary
            count += 1
        if count >= max(1, replica.free) and replica.in_flight:
            return None
        return [self._fresh.popleft() for _ in range(count)]

    def _send(self, replica: Replica, taken: list[list[Job]]) -> None:
        for repeats in taken:
            if len(repeats) > 1:
                self._spawn(self._attempt_samples(replica, repeats))
        jobs = [job for job, *others in taken if not others]
        alone = [job for job in jobs if job.alone]
        others = [job for job in jobs if not job.alone]
        runs = replica.bundles([job.request for job in others])
        for bundle in [*(others[run.start : run.stop] for run in runs), *([job] for job in alone)]:
            single = len(bundle) == 1
            self._spawn(self._attempt(replica, bundle[0]) if single else self._attempt_together(replica, bundle))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        error = None if task.cancelled() else task.exception()
        if error:
            # A defect here, or a run folder that cannot be written: without this the run would wait for ever.
            self._stop(error)

    def _next(self, only: Replica | None, balance: LeastLoaded) -> tuple[Replica, Job] | None:
        for index, job in enumerate(self._again):
            replica = balance.pick(job.avoid)
            if replica is None and job.avoid and job.avoid.free > 0 and self.pool.ready == [job.avoid]:
                replica = job.avoid
            if replica:
                del self._again[index]
                return replica, job
        if not self._fresh:
            return None
        replica = balance.pick() if only is None else only if only.free > 0 or self._may_wait(only) else None
        return (replica, self._fresh.popleft()) if replica else None

    def _may_wait(self, replica: Replica) -> bool:
        """Returns whether one more job may wait at a replica that works on all it can.

        Only if answers are quick compared with the timeout, and all other jobs, those under way included, keep the
        other replicas busy until this one would be answered, at their rate by Little's law (jobs under way by their
        mean duration): at the end of a run, jobs at a slow replica delay the whole run.
        """
        if replica.health is not Health.READY or not replica.limit <= replica.in_flight < replica.most:
            return False
        if not 0 < replica.longest < _WAITING_SHARE * self._timeout:
            return False
        return (len(self._fresh) + self._sent) * self._seconds >= self._sent * replica.seconds

    def _wake(self, seconds: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0.001), self.pump)

    async def _attempt(self, replica: Replica, job: Job) -> None:
        sent = Sent(replica)
        answer = await replica.ask(job.request, self._timeout)
        await self._conclude(sent, [(job, answer)])

    async def _conclude(self, sent: Sent, answers: Iterable[tuple[Job, Ending]]) -> None:
        """Counts the endings of calls once their servers are known.

        Until then each keeps its slot: a process that is killed loses no more answers than there are slots.
        """
        replica, seconds = sent.replica, sent.seconds
        for job, answer in answers:
            if not isinstance(answer, CallError):
                used = answer.usage
                self._budget.used(used.input_tokens, used.output_tokens, used.cached_tokens, used.reasoning_tokens)
            ending = await replica.trusted(answer, sent.to)
            self._returned(replica)
            self._handle_response(sent, job, ending, seconds)
        self.pump(replica)

    async def _conclude_all(self, sent: Sent, answers: Iterable[tuple[Job, Ending]]) -> None:
        if sent.replica.identifies:
            await self._conclude(sent, answers)
        else:  # each by itself: one look confirms them all
            for answer in answers:
                self._spawn(self._conclude(sent, [answer]))

    async def _attempt_together(self, replica: Replica, jobs: list[Job]) -> None:
        sent = Sent(replica)
        unanswered = dict(enumerate(jobs))
        try:
            async for answers in replica.ask_together([job.request for job in jobs], self._timeout):
                new = [(unanswered.pop(index), answer) for index, answer in answers if index in unanswered]
                await self._conclude_all(sent, new)
            missing = f"the server's Batch ended without a result for {len(unanswered)} of {len(jobs)} calls"
            failure = CallError(grpc.StatusCode.INTERNAL, "batch_incomplete", missing)
        except CallError as error:
            failure = error
        finally:
            self._returned(replica, len(unanswered))
        if failure.code is grpc.StatusCode.UNIMPLEMENTED:
            replica.batches = False
        self._fail(sent, unanswered.values(), failure)

    async def _attempt_samples(self, replica: Replica, jobs: list[Job]) -> None:
        sent = Sent(replica)
        endings = await replica.ask_samples([job.request for job in jobs], self._timeout)
        if isinstance(endings, CallError):
            self._returned(replica, len(jobs))
            if endings.code is grpc.StatusCode.UNIMPLEMENTED:
                replica.samples = 0
            self._fail(sent, jobs, endings)
        else:
            await self._conclude_all(sent, zip(jobs, endings, strict=True))

    def _fail(self, sent: Sent, jobs: Iterable[Job], failure: CallError) -> None:
        """Handles the failure of a call that was made for several jobs."""
        for job in jobs:
            if failure.consequence.abort or failure.consequence.retries is None or failure.code in _REPLICA_AT_FAULT:
                self._handle_response(sent, job, failure, sent.seconds)
            elif not self._draining:
                # Any of them may be at fault: each is sent again alone and judged by its own result.
                job.alone = True
                self._again.append(job)
        self.pump(sent.replica)

    def _returned(self, replica: Replica, jobs: int = 1) -> None:
        replica.in_flight -= jobs
        self._sent -= jobs

    def _handle_response(self, sent: Sent, job: Job, answer: Ending, seconds: float) -> None:
        """Counts the response or failure of a call and reports it, unless the job is sent again."""
        response, failure = (None, answer) if isinstance(answer, CallError) else (answer, None)
        if response is not None and (why := self.pool.other_model(response.served_by.endpoint_model)):
            self._stop(ConfigError(f"{sent.replica.address}: {why}"))
            return
        if failure is None:
            self._answered = max(sent.at, self._answered)
            sent.replica.answered(seconds)
            self._seconds += (seconds - self._seconds) * (_RECENT if self._seconds else 1.0)
        elif self._retry(sent.replica, job, failure):
            return
        else:
            failure = job.streak.told(failure)
        self._done(Result(job, response, failure, sent.replica.address, seconds, sent.started))

    def _retry(self, replica: Replica, job: Job, error: CallError) -> bool:
        """Handles a failure; returns whether the job is sent again, or the run stops."""
        if error.consequence.abort:
            defect = "is not paid for" if error.reason == "quota_exhausted" else "refuses the credential"
            refused = error.reason == SETTING_REFUSED
            self._stop(ConfigError(str(error) if refused else f"{replica.address} {defect}: {error}"))
            return True
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            replica.full(error)
            if (
                error.retry_after
            ):  # the job may have moved when the pause is over; a timer may be early by its resolution
                asyncio.get_running_loop().call_later(error.retry_after + 0.001, self.pump)
        elif error.code in _REPLICA_AT_FAULT or error.foreign:
            self.pool.suspect(replica, error)
        patience = job.patience = job.patience or Patience(self._patience)
        hopeless = job.streak.hopeless(error, self._answered)
        if patience.ends(error) or hopeless:
            return False
        job.failure = describe(error)
        if self._draining:
            return True
        job.avoid, job.alone = replica, True
        # With another replica ready, waiting is pointless unless its queue is full too.
        elsewhere = any(other is not replica for other in self.pool.ready)
        tries = patience.failures - elsewhere
        if tries:
            self._order += 1
            pause = backoff(tries) if elsewhere else max(backoff(tries), error.retry_after)
            heapq.heappush(self._later, (time.monotonic() + pause, self._order, job))
        else:
            self._again.append(job)
        return True
