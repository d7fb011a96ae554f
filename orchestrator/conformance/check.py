"""What a check is, and the table of them all."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
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

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def check(run: Run) -> Run:
    """Registers a check under its function's name, with the texts that `check.toml` has for it."""
    name: str = run.__name__
    texts = _TEXTS[name]
    CHECKS[name] = Check(name, texts["contract"], texts["fix"], run, texts.get("needs", ()))
    return run
