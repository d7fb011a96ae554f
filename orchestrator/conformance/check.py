"""What a check is, and the table of them all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.conformance.server import Server

Run = Callable[["Server"], Coroutine[Any, Any, str | None]]
"""Raises `Broken` or `NotApplicable`, or returns a note on a server that passed."""


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One named check.

    Attributes:
        name: Its name, the same for ever: CI systems compare by it.
        holds: The sentence of the contract that it holds a server to.
        fix: What to look at in a server that fails.
        run: The check.
        needs: Capabilities without which it is skipped, without their prefix.
    """

    name: str
    holds: str
    fix: str
    run: Run
    needs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """How one check ended.

    Attributes:
        check: The check.
        status: How it ended.
        detail: What the server did, why the check is not applicable, or a note.
        seconds: How long it took.
    """

    check: Check
    status: Status
    detail: str
    seconds: float


CHECKS: dict[str, Check] = {}
"""Every check by its name, in the order in which they are run."""


def check(holds: str, fix: str, needs: Sequence[str] = ()) -> Callable[[Run], Run]:
    """Registers a check under its function's name; see `Check`."""

    def register(run: Run) -> Run:
        name: str = run.__name__
        CHECKS[name] = Check(name, holds, fix, run, needs)
        return run

    return register
