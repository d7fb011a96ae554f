"""One call on its way: its request, its time and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from lyncean.rpc import CallError
from lyncean.rpc.patience import Patience
from orchestrator.engine.replica import Replica
from orchestrator.engine.streak import Streak
from orchestrator.engine.wire import Request, Response


@dataclass(slots=True, eq=False)
class Job:
    """One call on its way to an answer; equal to itself alone.

    Attributes:
        request: The request, as sent.
        owner: An object of the caller, returned with the result.
        attempts: Times that it was sent.
        patience: Its failures, from the first one on.
        alone: Whether it is not to share a call with others: it failed before.
        streak: Its last failures, as far as they are alike.
        failure: The last one as text.
        prompt: Jobs that hold one such object are repeats of one prompt, in their order; None for all others.
    """

    request: Request
    owner: Any
    attempts: int = 0
    patience: Patience | None = None
    avoid: Replica | None = None
    alone: bool = False
    streak: Streak = field(default_factory=Streak)
    failure: str = ""
    prompt: object = None


@dataclass(slots=True, eq=False)
class Result:
    """Result of a job: exactly one of `response` and `error` is set.

    Attributes:
        replica: Address of the replica of the last call.
        seconds: Duration of the last call.
        started: Its start, seconds since the epoch.
    """

    job: Job
    response: Response | None
    error: CallError | None
    replica: str
    seconds: float
    started: float


class Sent:
    """The time at which a call was sent, and its replica.

    Attributes:
        replica: The replica.
        to: Its start and connection, as in `Replica.now`.
        started: The time, seconds since the epoch.
        at: The time, seconds of the monotonic clock.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica, self.to = replica, replica.now()
        self.started, self._clock = time.time(), time.perf_counter()
        self.at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since then."""
        return time.perf_counter() - self._clock
