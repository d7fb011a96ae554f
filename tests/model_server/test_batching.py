"""The batcher: company without waiting long, bounded, cancellable, and undone by nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import grpc
import pytest

from lyncean.rpc import InvalidRequest, Overloaded, StatusError
from model_server.admission import Slots
from model_server.backend import Call
from model_server.batching import Batcher, Job, OutOfMemory
from model_server.metrics import Metrics


class Runs:
    """Answers with the work itself and keeps what ran together; holds the model while `gate` is shut."""

    def __init__(self, fits: int = 99) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fits = fits

    def __call__(self, jobs: Sequence[Job[str, str]]) -> None:
        self.gate.wait(10)
        self.batches.append([job.work for job in jobs])
        if len(jobs) > self.fits:
            raise OutOfMemory("too much")
        for job in jobs:
            if job.work == "bad":
                job.resolve(InvalidRequest("bad", "bad"))
            elif job.work != "silent":
                job.resolve(f"<{job.work}>")


def make_batcher(run: Runs, metrics: Metrics | None = None, **kwargs: float) -> Batcher[str, str]:
    settings = {"max_batch": 4, "wait": 0.05, "max_queue": 8} | kwargs
    return Batcher(run, metrics=metrics or Metrics(), **settings)  # type: ignore[arg-type]


async def occupied(run: Runs, *, max_queue: int) -> tuple[Batcher[str, str], asyncio.Task[str]]:
    """Returns a batcher whose model has taken "a" and holds it while the gate is shut."""
    run.gate.clear()
    batcher = make_batcher(run, max_batch=1, wait=0.0, max_queue=max_queue)
    first = asyncio.create_task(batcher.submit("a", (), 1, Call()))
    while batcher._queue or not batcher._task:
        await asyncio.sleep(0.01)
    return batcher, first


async def test_what_arrives_together_runs_together() -> None:
    run = Runs()
    batcher = make_batcher(run)
    answers = await asyncio.gather(*[batcher.submit(name, (), 10, Call()) for name in "abcd"])
    assert answers == ["<a>", "<b>", "<c>", "<d>"]
    assert run.batches == [["a", "b", "c", "d"]]
    await batcher.close()


async def test_a_lone_request_does_not_wait_for_ever() -> None:
    batcher = make_batcher(Runs(), wait=0.01)
    assert await asyncio.wait_for(batcher.submit("a", (), 10, Call()), 5) == "<a>"
    await batcher.close()


async def test_keys_and_lengths_are_kept_apart() -> None:
    run = Runs()
    batcher = make_batcher(run)
    work = [("a", "k", 100), ("b", "other", 100), ("c", "k", 110), ("d", "k", 900)]
    await asyncio.gather(*[batcher.submit(name, key, length, Call()) for name, key, length in work])
    assert sorted(run.batches) == [["a", "c"], ["b"], ["d"]]
    await batcher.close()


async def test_a_full_queue_refuses_with_the_limit() -> None:
    run = Runs()
    batcher, first = await occupied(run, max_queue=2)
    waiting = [asyncio.create_task(batcher.submit(name, (), 1, Call())) for name in "bc"]
    await asyncio.sleep(0.01)
    with pytest.raises(Overloaded) as caught:
        await batcher.submit("d", (), 1, Call())
    assert caught.value.metadata == {"limit": "2", "value": "2"}
    run.gate.set()
    assert await asyncio.gather(first, *waiting) == ["<a>", "<b>", "<c>"]
    await batcher.close()


async def test_a_cancelled_request_never_runs() -> None:
    run = Runs()
    run.gate.clear()
    batcher = make_batcher(run, max_batch=1, wait=0.0)
    first = asyncio.create_task(batcher.submit("a", (), 1, Call()))
    call = Call()
    second = asyncio.create_task(batcher.submit("b", (), 1, call))
    await asyncio.sleep(0.05)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert call.over
    run.gate.set()
    assert await first == "<a>"
    assert await batcher.submit("c", (), 1, Call()) == "<c>"
    assert run.batches == [["a"], ["c"]]
    await batcher.close()


async def test_a_cancelled_requests_place_in_the_queue_goes_to_the_next() -> None:
    run = Runs()
    batcher, first = await occupied(run, max_queue=1)
    second = asyncio.create_task(batcher.submit("b", (), 1, Call()))
    while not batcher._queue:
        await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    third = asyncio.create_task(batcher.submit("c", (), 1, Call()))
    await asyncio.sleep(0)
    run.gate.set()
    assert await asyncio.gather(first, third) == ["<a>", "<c>"]
    assert run.batches == [["a"], ["c"]]
    await batcher.close()


async def test_a_deadline_in_the_queue_is_told() -> None:
    run = Runs()
    run.gate.clear()
    batcher = make_batcher(run, max_batch=1, wait=0.0)
    first = asyncio.create_task(batcher.submit("a", (), 1, Call()))
    await asyncio.sleep(0.05)
    late = asyncio.create_task(batcher.submit("b", (), 1, Call(timeout=0.01)))
    await asyncio.sleep(0.05)
    run.gate.set()
    with pytest.raises(StatusError) as caught:
        await late
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert await first == "<a>"
    assert run.batches == [["a"]]
    await batcher.close()


async def test_out_of_memory_splits_and_goes_on() -> None:
    run, metrics = Runs(fits=1), Metrics()
    batcher = make_batcher(run, metrics)
    answers = await asyncio.gather(*[batcher.submit(name, (), 1, Call()) for name in "abcd"])
    assert answers == ["<a>", "<b>", "<c>", "<d>"]
    assert [len(batch) for batch in run.batches] == [4, 2, 1, 1, 1, 1]
    assert metrics.registry.get_sample_value("lyncean_batch_splits_total") == 2
    await batcher.close()


async def test_a_request_that_does_not_fit_alone_fails_alone() -> None:
    batcher = make_batcher(Runs(fits=0))
    with pytest.raises(StatusError) as caught:
        await batcher.submit("a", (), 1, Call())
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.INTERNAL, "out_of_memory")
    await batcher.close()


async def test_one_bad_row_leaves_its_neighbours_alone() -> None:
    batcher = make_batcher(Runs())
    results = await asyncio.gather(
        *[batcher.submit(name, (), 1, Call()) for name in ("a", "bad", "silent")], return_exceptions=True
    )
    assert results[0] == "<a>"
    assert isinstance(results[1], InvalidRequest)
    assert isinstance(results[2], StatusError)
    assert results[2].reason == "no_answer"
    await batcher.close()


@pytest.mark.parametrize("error", [InvalidRequest("bad", "bad"), ZeroDivisionError()])
async def test_a_request_that_breaks_its_batch_fails_alone(error: Exception) -> None:
    runs = Runs()

    def run(jobs: Sequence[Job[str, str]]) -> None:
        if jobs[0].work == "early":
            jobs[0].resolve("resolved before the others broke")
        if any(job.work == "bad" for job in jobs):
            raise error
        runs(jobs)

    batcher: Batcher[str, str] = Batcher(run, max_batch=4, wait=0.05, max_queue=8, metrics=Metrics())
    names = ("early", "a", "bad", "c")
    early, a, bad, c = await asyncio.gather(
        *[batcher.submit(name, (), 1, Call()) for name in names], return_exceptions=True
    )
    assert (early, a, c) == ("resolved before the others broke", "<a>", "<c>")
    assert isinstance(bad, StatusError)
    assert bad.reason == ("bad" if isinstance(error, StatusError) else "model_failed")
    assert runs.batches == [["a"], ["c"]]
    await batcher.close()


async def test_a_defect_is_internal_and_the_next_batch_runs() -> None:
    calls: list[int] = []

    def run(jobs: Sequence[Job[str, str]]) -> None:
        calls.append(len(jobs))
        if len(calls) == 1:
            raise ZeroDivisionError
        jobs[0].resolve("fine")

    batcher: Batcher[str, str] = Batcher(run, max_batch=1, wait=0.0, max_queue=4, metrics=Metrics())
    with pytest.raises(StatusError) as caught:
        await batcher.submit("a", (), 1, Call())
    assert caught.value.code == grpc.StatusCode.INTERNAL
    assert "ZeroDivisionError" in str(caught.value)
    assert await batcher.submit("b", (), 1, Call()) == "fine"
    await batcher.close()


@pytest.mark.parametrize("max_queue", [0, 1, 3])
async def test_no_more_wait_than_may_and_a_free_slot_is_always_given(max_queue: int) -> None:
    slots, done = Slots(2, max_queue, Metrics()), asyncio.Event()

    async def call() -> None:
        async with slots.slot():
            await done.wait()

    calls = [asyncio.create_task(call()) for _ in range(2 + max_queue)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=rf"{max_queue} requests are waiting, the limit is {max_queue}"):
        await call()
    done.set()
    await asyncio.gather(*calls)
    await call()


class Joining:
    """A model of rows that take as many turns as their work says; `admitted` holds what ran beside what."""

    def __init__(self, *, budget: float = 1e9, breaks: str = "", **kwargs: float) -> None:
        self.admitted: list[list[str]] = []
        self.gate = threading.Event()
        self._breaks = breaks
        settings = {"max_batch": 3, "wait": 0.0, "max_queue": 20} | kwargs
        self.batcher: Batcher[str, str] = Batcher(self._run, metrics=Metrics(), **settings)  # type: ignore[arg-type]
        self.batcher.budget.limit = budget

    def _run(self, jobs: Sequence[Job[str, str]]) -> None:
        left = {job: int(job.work[1:]) for job in jobs}
        self.gate.wait(10)
        while left:
            self.admitted.append([job.work for job in left])
            if len(left) > 1 and any(job.work.startswith(self._breaks) for job in left if self._breaks):
                raise ZeroDivisionError
            for job in list(left):
                left[job] -= 1
                if not left[job]:
                    del left[job]
                    job.resolve(job.work)
            left |= {job: int(job.work[1:]) for job in self.batcher.join()}

    async def answers(self, *sent: tuple[str, str, int]) -> list[str]:
        """Sends works with their keys and lengths, the first of them before the others; returns the answers."""
        waiting = []
        for number, work in enumerate(sent):
            waiting.append(asyncio.ensure_future(self.batcher.submit(*work, Call())))
            while not self.batcher._running or len(self.batcher._queue) < number:
                await asyncio.sleep(0.001)
        self.gate.set()
        answers = await asyncio.gather(*waiting)
        await self.batcher.close()
        return answers


async def test_what_waits_joins_when_a_row_has_ended() -> None:
    run = Joining()
    sent = [("a5", "k", 9), ("b1", "k", 900), ("c2", "k", 1), ("d1", "k", 9), ("e1", "k", 9)]
    assert await run.answers(*sent) == [name for name, _, _ in sent]
    assert run.admitted == [["a5"], ["a5", "b1", "c2"], ["a5", "c2", "d1"], ["a5", "e1"], ["a5"]]


async def test_nothing_is_overtaken_by_what_joins() -> None:
    """A row that waits first and may not join, for its key or size, is next: others that could join wait."""
    run = Joining()
    assert await run.answers(("a3", "k", 9), ("b1", "other", 9), ("c1", "k", 9)) == ["a3", "b1", "c1"]
    assert run.admitted == [["a3"], ["a3"], ["a3"], ["b1"], ["c1"]]
    run = Joining(budget=50)
    # Of 10 tokens each, two rows and the prompt that is read make 30; with one of 20 it would be 60.
    assert await run.answers(("a3", "k", 10), ("b1", "k", 10), ("c1", "k", 20)) == ["a3", "b1", "c1"]
    assert run.admitted == [["a3"], ["a3", "b1"], ["a3"], ["c1"]]


async def test_rows_that_joined_a_run_that_broke_run_again_alone() -> None:
    run = Joining(breaks="b")
    assert await run.answers(("a3", "k", 9), ("b1", "k", 9), ("c1", "k", 9)) == ["a3", "b1", "c1"]
    assert run.admitted == [["a3"], ["a3", "b1", "c1"], ["a3"], ["a3"], ["a3"], ["b1"], ["c1"]]
