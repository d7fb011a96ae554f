"""Load balancing picks the replica that a search over all of them finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given, strategies as st

from lyncean.rpc.budget import Budget
from orchestrator.engine.balance import LeastLoaded
from orchestrator.engine.dispatch import Dispatcher
from orchestrator.engine.jobs import Job

replicas = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 14)), max_size=8)


def replica(limit: int, in_flight: int) -> SimpleNamespace:
    return SimpleNamespace(limit=limit, free=limit - in_flight)


def looked_at(all_of_them: list[SimpleNamespace], avoid: SimpleNamespace | None) -> SimpleNamespace | None:
    with_room = [one for one in all_of_them if one.free > 0 and one is not avoid]
    return max(with_room, key=lambda one: one.free / one.limit, default=None)


@given(replicas, st.lists(st.one_of(st.none(), st.integers(0, 7)), max_size=60))
def test_calls_go_where_there_is_most_room(sizes: list[tuple[int, int]], avoided: list[int | None]) -> None:
    all_of_them = [replica(*size) for size in sizes]
    balance = LeastLoaded(all_of_them)  # type: ignore[arg-type]
    for index in avoided:
        avoid = all_of_them[index] if index is not None and index < len(all_of_them) else None
        picked = balance.pick(avoid)  # type: ignore[arg-type]
        assert picked is looked_at(all_of_them, avoid)
        if picked:
            picked.free -= 1


def test_jobs_that_are_dropped_are_these_and_none_that_look_like_them() -> None:
    request: Any = object()
    jobs = [Job(request, number % 2) for number in range(6)]
    pool: Any = SimpleNamespace(replicas={}, ready=[])
    dispatcher = Dispatcher(pool, lambda _: None, lambda _: None, timeout=1.0, patience=1.0, budget=Budget())
    dispatcher._fresh.extend(jobs)
    assert dispatcher.drop(lambda job: job is jobs[2]) == [jobs[2]]
    assert [job for job in jobs if job in dispatcher._fresh] == [*jobs[:2], *jobs[3:]]
    assert dispatcher.drop(lambda job: job.owner == 1) == jobs[1::2]
    assert list(dispatcher._fresh) == [jobs[0], jobs[4]]
