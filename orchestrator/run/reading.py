"""Confidence of the readings of a task's answers, and the error that this may hide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from lyncean.statistics.intervals import wilson
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import ERRORS, Confidence, Reason, confidence
from orchestrator.run_folder.lines import VerdictLine

RULE, CONSTRAINT, SECOND_READER, DOUBTFUL, UNPARSED = "rule", "constraint", "second_reader", "doubtful", "unparsed"
_KINDS = {Confidence.FIRM: RULE, Confidence.DOUBTFUL: DOUBTFUL, Confidence.UNPARSED: UNPARSED}
"""Description of each confidence class; constrained answers are labels and have none."""
LEVEL = 0.95


class Readings:
    """Counts how the answers of one task were read.

    Args:
        constrained: Whether the server held the answers to the labels.
    """

    def __init__(self, *, constrained: bool) -> None:
        self._constrained = constrained
        self.restart()

    def restart(self) -> None:
        """Forgets what was counted: the verdicts follow from the first on."""
        self._planned = 0
        self._by: Counter[str] = Counter()

    def add(self, line: VerdictLine) -> None:
        """Adds the verdict of an item."""
        self._planned += 1
        kind = confidence(line.rule, line.outcome, line.reason)
        if kind is None:
            return
        if line.judge is not UNSET:
            self._by[SECOND_READER] += 1
        elif self._constrained and line.outcome == Outcome.SCORED and line.reason == Reason.BARE:
            self._by[CONSTRAINT] += 1
        else:
            self._by[_KINDS[kind]] += 1

    def summary(self) -> dict[str, Any] | None:
        """Returns `reading` of results.json; None where no answer was read in words."""
        if not self._by:
            return None
        by = {name: self._by[name] for name in (CONSTRAINT, RULE, SECOND_READER, DOUBTFUL, UNPARSED)}
        return {"by": by, "hidden": hidden_error(by, self._planned)}


def hidden_error(by: Mapping[str, int], planned: int) -> dict[str, float]:
    """Returns the error that the reading could hide, in points of accuracy, with its 95% interval.

    It is the expected share of answers that were read wrongly or, although they state an answer, not at all, at the
    measured rates (`lyncean.vocabulary.reasons.ERRORS`). Accuracy differs from that of perfect reading by no more. The
    interval is that of a weighted sum of independent shares from their Wilson intervals (MOVER, Zou and Donner 2008).

    Args:
        by: How many answers were read in each way.
        planned: All answers of the task; > 0.
    """
    value = below = above = 0.0
    for kind, name in _KINDS.items():
        wrong, read = ERRORS[kind]
        low, high = wilson(wrong, read, LEVEL)
        weight = 100 * by.get(name, 0) / planned
        value += weight * wrong / read
        below += (weight * (wrong / read - low)) ** 2
        above += (weight * (high - wrong / read)) ** 2
    ends = {"low": max(0.0, value - math.sqrt(below)), "high": value + math.sqrt(above)}
    return {name: round(number, 3) for name, number in {"points": value, **ends, "level": LEVEL}.items()}
