"""Patience with a server, on a clock that stands still until somebody sleeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import grpc
import pytest

from lyncean.rpc import CallError, Patience, backoff, patiently
from lyncean.rpc.errors import CONSEQUENCES

Code = grpc.StatusCode
FULL, ABSENT, DEFECT = Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE, Code.INTERNAL


class Clock:
    """Time passes only in `sleep`; jitter is at its maximum."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Channel:
    """A channel that is connected or not."""

    ready = False

    def get_state(self) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY if self.ready else grpc.ChannelConnectivity.TRANSIENT_FAILURE


class Server:
    """Fails with one status after the other, then answers."""

    def __init__(self, *failures: Code | CallError) -> None:
        self.calls = 0
        self.failures = iter([problem if isinstance(problem, CallError) else failure(problem) for problem in failures])

    async def call(self) -> str:
        self.calls += 1
        for error in self.failures:
            raise error
        return "answer"


def failure(code: Code, retry_after: float = 0.0, reason: str = "reason") -> CallError:
    return CallError(code, reason, code.name, retry_after=retry_after)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    it = Clock()
    monkeypatch.setattr("random.uniform", lambda _low, high: high)
    monkeypatch.setattr(time, "monotonic", lambda: it.now)
    monkeypatch.setattr(asyncio, "sleep", it.sleep)
    yield it
    monkeypatch.undo()


def run(server: Server, patience: Patience) -> str:
    async def work() -> str:
        return await patiently(server.call, patience)

    work_loop = work()
    try:
        work_loop.send(None)  # nothing is awaited but the clock's sleep
    except StopIteration as end:
        return str(end.value)
    raise AssertionError("it waits for something else")


def test_pauses_double_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [backoff(failures, 0.1, 5.0) for failures in (1, 2, 3, 7, 10_000)] == [0.1, 0.2, 0.4, 5.0, 5.0]
    assert [backoff(failures) for failures in (1, 2, 6, 7, 8)] == [0.5, 1.0, 16.0, 30.0, 30.0]
    monkeypatch.setattr("random.uniform", lambda low, _high: low)
    assert backoff(2, 0.1, 5.0) == 0.1


def test_a_full_or_absent_server_is_waited_for(clock: Clock) -> None:
    server = Server(FULL, ABSENT, Code.ABORTED, FULL)
    assert run(server, Patience(60.0)) == "answer"
    assert clock.slept == [0.5, 1.0, 2.0, 4.0]


def test_the_pause_that_a_server_asks_for_is_kept(clock: Clock) -> None:
    assert run(Server(failure(FULL, retry_after=7.0), failure(FULL, retry_after=0.1)), Patience(60.0)) == "answer"
    assert clock.slept == [7.0, 1.0]


@pytest.mark.parametrize("code", Code)
def test_the_table_of_consequences_limits_the_tries(code: Code) -> None:
    if code is Code.OK:
        return
    retries = CONSEQUENCES[code].retries
    server = Server(*[code] * 20)
    with pytest.raises(CallError) as caught:
        run(server, Patience(100.0))
    assert caught.value.code is code
    assert server.calls == (9 if retries is None else 1 + retries)


def test_the_table_is_read_by_status() -> None:
    server = Server(ABSENT, ABSENT, DEFECT, ABSENT, Code.DEADLINE_EXCEEDED)
    assert run(server, Patience(600.0)) == "answer"
    server = Server(ABSENT, DEFECT, ABSENT, DEFECT)
    with pytest.raises(CallError, match="INTERNAL"):
        run(server, Patience(600.0))
    assert server.calls == 4


def test_a_status_of_somebody_between_is_tried_twice_more() -> None:
    server = Server(*[failure(Code.PERMISSION_DENIED, reason="")] * 5)
    with pytest.raises(CallError, match="without ErrorInfo"):
        run(server, Patience(600.0))
    assert server.calls == 3


def test_a_pause_that_ends_too_late_is_not_begun(clock: Clock) -> None:
    with pytest.raises(CallError):
        run(Server(failure(FULL, retry_after=300.0)), Patience(299.0))
    assert not clock.slept
    with pytest.raises(CallError):
        run(Server(*[FULL] * 20), Patience(3.4))
    assert clock.slept == [0.5, 1.0]


def test_the_time_of_the_calls_counts(clock: Clock) -> None:
    patience = Patience(60.0)
    clock.now += 59.8
    with pytest.raises(CallError):
        run(Server(Code.DEADLINE_EXCEEDED), patience)
    assert not clock.slept


def test_each_failure_is_reported_with_its_pause() -> None:
    seen: list[tuple[Code, float]] = []
    work = patiently(
        Server(FULL, DEFECT, DEFECT).call, Patience(60.0), lambda error, pause: seen.append((error.code, pause))
    )
    with pytest.raises(CallError):
        work.send(None)
    assert seen == [(FULL, 0.5), (DEFECT, 1.0), (DEFECT, 2.0)]


def test_other_exceptions_pass() -> None:
    async def attempt() -> str:
        raise ValueError("not a status")

    with pytest.raises(ValueError, match="not a status"):
        patiently(attempt, Patience(60.0)).send(None)


def test_an_address_that_was_never_reached_is_given_up_sooner(clock: Clock) -> None:
    channel = Channel()
    patience = Patience(60.0, 5.0, channel)  # type: ignore[arg-type]
    assert not patience.over(4.9)
    assert patience.over(5.0)
    channel.ready = True
    assert not patience.over(59.0)
    channel.ready = False
    assert not patience.over(59.0)
    clock.now += 60.0
    assert patience.over()


def test_reach_is_never_longer_than_patience() -> None:
    assert Patience(2.0, 5.0, Channel()).over(2.0)  # type: ignore[arg-type]


def test_failures_are_counted() -> None:
    patience = Patience(60.0)
    assert not patience.ends(failure(FULL))
    assert not patience.ends(failure(DEFECT))
    assert patience.ends(failure(DEFECT))
    assert patience.failures == 3
