"""Work is done at once where it is short and waited for, else in a thread, in order and never in both at a time."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, strategies as st

from orchestrator.engine.worker import LONG_SECONDS, MOST_TURNS, TURN_SECONDS, Worker


class Clock:
    """Goes on only where work says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def idle() -> bool:
    """Says that the event loop has nothing else to do."""
    return False


def at_once() -> bool:
    """Returns True in the thread of the event loop."""
    return threading.current_thread() is threading.main_thread()


async def run_batches(batches: list[list[float]]) -> list[list[tuple[float, bool]]]:
    """Does work that takes so many seconds, and returns of each how long it took and whether it was done at once."""
    clock = Clock()
    worker = Worker(idle, clock)

    def work(seconds: float) -> tuple[float, bool]:
        clock.now += seconds
        return seconds, at_once()

    try:
        assert await worker.each(work, [0.0]) == [(0.0, False)], "the first piece is done in the thread"
        return [await worker.each(work, batch) for batch in batches]
    finally:
        worker.shutdown()


def test_short_work_is_done_at_once() -> None:
    outcomes = asyncio.run(run_batches([[0.0, LONG_SECONDS], [0.0]]))
    assert outcomes == [[(0.0, True), (LONG_SECONDS, True)], [(0.0, True)]]


def test_what_comes_after_long_work_is_done_in_the_thread() -> None:
    long = 2 * LONG_SECONDS
    outcomes = asyncio.run(run_batches([[0.0, long, 0.0, long], [0.0]]))
    assert outcomes == [[(0.0, True), (long, True), (0.0, False), (long, False)], [(0.0, True)]]


def test_work_that_stays_long_is_tried_at_once_ever_less_often() -> None:
    outcomes = asyncio.run(run_batches([[1.0]] * 400))
    tries = [index for index, [(_, once)] in enumerate(outcomes) if once]
    turns = [after - before - 1 for before, after in itertools.pairwise(tries)]
    assert turns == [1, 2, 4, 8, 16, 32, *[MOST_TURNS] * 5]


def test_one_short_try_makes_it_be_tried_often_again() -> None:
    outcomes = asyncio.run(run_batches([[1.0]] * 7 + [[0.0]] + [[1.0]] * 4))
    assert [once for [(_, once)] in outcomes] == [True, False, True, False, False, True, *[False] * 4, True, False]


def test_beside_a_busy_event_loop_work_is_done_in_the_thread() -> None:
    async def run() -> list[list[bool]]:
        states = iter([True, False, False, True])
        worker = Worker(lambda: next(states), Clock())
        try:
            return [await worker.each(lambda _: at_once(), [1, 2]) for _ in range(5)]
        finally:
            worker.shutdown()

    assert asyncio.run(run()) == [[False] * 2] * 2 + [[True] * 2] * 2 + [[False] * 2]


@given(
    st.lists(st.lists(st.sampled_from([0.0, LONG_SECONDS, 1.0]), min_size=1, max_size=5), max_size=30),
    st.integers(1, 4),
    st.integers(0, 2**32),  # a seed: how much is drawn depends on the threads
)
def test_results_are_in_order_and_no_two_pieces_of_work_overlap(
    batches: list[list[float]], tasks: int, seed: int
) -> None:
    clock, inside, random = Clock(), threading.Lock(), Random(seed)

    def work(item: tuple[int, float]) -> tuple[int, float]:
        assert inside.acquire(blocking=False), "two pieces of work at a time"
        time.sleep(0)
        clock.now += item[1]
        inside.release()
        return item

    async def run() -> None:
        worker = Worker(lambda: random.random() < 0.3, clock)

        async def some(mine: Iterator[list[float]]) -> None:
            for batch in mine:
                items = list(enumerate(batch))
                assert await worker.each(work, items) == items

        shared = iter(batches)
        try:
            await asyncio.gather(*(some(shared) for _ in range(tasks)))
        finally:
            worker.shutdown()

    asyncio.run(run())


@pytest.mark.parametrize("before", [0.0, 1.0])
def test_what_work_raises_comes_through_and_later_items_are_not_begun(before: float) -> None:
    clock, begun = Clock(), []

    def work(item: float) -> None:
        begun.append(item)
        clock.now += item
        if item == 0.5:
            raise ValueError("no")

    async def run() -> None:
        worker = Worker(idle, clock)
        try:
            with pytest.raises(ValueError, match="no"):
                await worker.each(work, [before, 0.5, 0.25])
            await worker.each(work, [0.125])
        finally:
            worker.shutdown()

    asyncio.run(run())
    assert begun == [before, 0.5, 0.125]


def test_the_event_loop_has_its_turn_within_a_piece_that_takes_long_as_a_whole() -> None:
    async def run() -> list[str]:
        clock, order = Clock(), []
        worker = Worker(idle, clock)
        await worker.each(str, ["the first piece"])

        def work(seconds: float) -> None:
            assert at_once()
            order.append("work")
            clock.now += seconds

        async def other() -> None:
            while len(order) < 10:
                order.append("loop")
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        await worker.each(work, [TURN_SECONDS / 2, TURN_SECONDS, 0.0, 0.0, 1.5 * TURN_SECONDS, 0.0])
        await beside
        worker.shutdown()
        return order[:9]

    turns = ["loop", "work", "work"], ["loop", "work", "work", "work"], ["loop", "work"]
    assert asyncio.run(run()) == [step for turn in turns for step in turn]


def test_the_event_loop_has_its_turn_between_pieces() -> None:
    async def run() -> list[str]:
        worker, order = Worker(idle), []
        await worker.each(str, ["the first piece"])

        async def other() -> None:
            for _ in range(3):
                order.append("loop")
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        for _ in range(3):
            await worker.each(order.append, ["work"])
        await beside
        worker.shutdown()
        return order

    assert asyncio.run(run()) == ["loop", "work"] * 3
