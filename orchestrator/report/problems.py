"""Problems in a run: how often each reason occurs, and one message of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.run_folder.reader import Run

_OF_AN_IMAGE = ("bad_image", "image_too_large")
"""Reasons whose message names one item."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong, and how often."""

    outcome: str
    reason: str
    count: int
    message: str


def ordered(counts: Mapping[tuple[str, str], Iterable[Any]]) -> list[Problem]:
    """Returns problems from (outcome, reason) -> (count, message), the most frequent first."""
    problems = (Problem(*names, *rest) for names, rest in counts.items())
    return sorted(problems, key=lambda problem: (-problem.count, problem.outcome, problem.reason))


def problems(run: Run) -> list[Problem]:
    """Returns what went wrong in a complete run by its verdicts alone, the most frequent first.

    Raises:
        RunLogError: A verdict is damaged.
    """
    counts: dict[tuple[str, str], list[Any]] = {}
    for verdict in run.unscored():
        # The server that refuses an image knows neither its file nor its row.
        message = f"{verdict.key}: {verdict.detail}" if verdict.reason in _OF_AN_IMAGE else verdict.detail
        counts.setdefault((verdict.outcome, verdict.reason), [0, message])[0] += 1
    return ordered(counts)
