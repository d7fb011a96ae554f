"""The rule by which a run stops, and the confidence sequences that it looks at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from lyncean.statistics.sequential import ConfidenceSequence
from orchestrator.errors import ConfigError

LEVEL = 0.95
"""Coverage of a sequence over all looks together."""
CHANGED = 0.15
"""Share of the answers assumed to change between two runs."""
MARGIN = 0.02
"""Difference that `decided` treats as none unless another is stated; that of the gate `no_regression`."""
_RULE = re.compile(r"\s*(?:(width)\s*<=\s*([\d.]+)|(decided)(?:\s*<=\s*([\d.]+))?)\s*")


class Rule(NamedTuple):
    """Rule by which a run stops.

    Attributes:
        decides: Whether it stops on a decision between two runs, else on a width.
        size: The width or margin, a share.
    """

    decides: bool
    size: float


def rule_of(until: str | None, against: object) -> Rule:
    """Returns the rule of a request with one of --until and --against.

    Raises:
        ConfigError: If `until` is not a rule, or one of --until and --against does not fit the other.
    """
    if until is None:
        raise ConfigError("--against RUN needs --until decided: the rule by which the run stops")
    match = _RULE.fullmatch(until)
    try:
        size = float((match[2] or match[4] or 100 * MARGIN) if match else "none") / 100
    except ValueError:
        size = -1.0
    if not match or not 0 < size < 1:
        raise ConfigError(
            f"--until {until}: write width<=POINTS for a width of the interval, or, with --against RUN, decided or "
            "decided<=POINTS for the largest difference that counts as none; points are between 0 and 100"
        )
    if bool(match[3]) != (against is not None):
        raise ConfigError(
            "--until decided needs --against RUN, the run that it is decided against"
            if match[3]
            else f"--until {until} is on this run alone: leave --against out, or give --until decided"
        )
    return Rule(bool(match[3]), size)


class Sequences:
    """Confidence sequences of a task.

    Args:
        totals: Number of `units` and `items`, and the `largest` unit.
        rule: The rule that they are for.

    Attributes:
        own: The sequence of its metric.
        difference: The sequence of the difference to another run; None if the rule needs none.
    """

    def __init__(self, totals: Mapping[str, int], rule: Rule) -> None:
        make = partial(ConfidenceSequence, totals["units"], totals["items"], totals["largest"], level=LEVEL)
        self._size = rule.size
        self.own = make(width=None if rule.decides else rule.size)
        self.difference = make((-1.0, 1.0)) if rule.decides else None

    def add(self, total: float, base: float, size: int) -> bool:
        """Adds a unit with the other run's total and returns whether the rule is met.

        Raises:
            ConfigError: If a score is not between 0 and 1.
        """
        try:
            self.own.add(total, size)
            if self.difference:
                self.difference.add(total - base, size)
        except ValueError:
            raise ConfigError(
                "--until: the scores are not between 0 and 1, and a sequence needs bounds: leave --until out"
            ) from None
        if not self.difference:
            return self.own.width <= self._size + 1e-9
        low, high = self.difference.low, self.difference.high
        return low > 0 or high < 0 or (low >= -self._size and high <= self._size)
