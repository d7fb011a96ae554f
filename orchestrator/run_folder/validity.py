"""Decides if a task's metrics are a result: one verdict for exit codes, reports, leaderboards, gates and exports.

`results.json` has the doubts of each task, made once with its metrics; all readers take them from here. A doubt may be
`void`: then no reader shows a number, since it says nothing about the model. docs/read-the-numbers.md has the limits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, convert

from lyncean.errors import printable
from lyncean.vocabulary.outcomes import ANSWERED, Outcome

FIELD = "doubts"
"""Field of a task or group in `results.json`."""
_LONGEST = 100


class Cause(StrEnum):
    """Reason to doubt a number."""

    UNASKED = "unasked"
    """Every item is rejected: the model was never asked."""
    UNANSWERED = "unanswered"
    """Too many items have no answer that was read: rejected, failed, unjudged or unparsed."""
    UNREAD = "unread"
    """Most answers could not be read."""
    DECLINED = "declined"
    """Most answers decline, or say that they have none."""
    READING = "reading"
    """The reader is in doubt: it takes one text for different answers, or the prompt for an answer."""
    CONSTANT = "constant"
    """Nearly all answers are the same, although other ones are right."""
    BELOW_CHANCE = "below_chance"
    """Fewer answers are right than guesses would be."""
    ONE_KEY = "one_key"
    """The right option has one position in all items: a preference for that position looks like knowledge."""
    NONE_RIGHT = "none_right"
    """Not one answer is right."""
    TASKS = "tasks"
    """Of a group: tasks of it have no result."""


class Doubt(Struct, frozen=True, omit_defaults=True):
    """A reason to doubt a task's metrics.

    Attributes:
        cause: One of `Cause`; a later version may have others.
        words: The fact, without the task's name and a full stop.
        void: Whether the metrics are not a result at all.
        key: An item that shows it, "" without one.
        text: The model's answer there.
        target: A right answer there.
    """

    cause: str
    words: str
    void: bool = False
    key: str = ""
    text: str = ""
    target: str = ""

    @property
    def sentence(self) -> str:
        """The fact with its example, one line for a terminal."""
        text = self.words
        if self.key:
            text += f"; {self.key} says {excerpt(self.text)}"
            text += f" where {excerpt(self.target)} is right" if self.target else ""
        return printable(text)


def excerpt(text: str) -> str:
    """Returns the beginning of a text, in quotes and on one line."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"}"' if line else "nothing"


def of_results(results: Mapping[str, Any]) -> Sequence[Doubt]:
    """Returns the doubts of a task or group of `results.json`; of an older one, those that its counts show.

    Raises:
        ValueError: If one is damaged.
    """
    if FIELD in results:
        return convert(results[FIELD], list[Doubt])
    return of_counts({name: int(number) for name, number in (results.get("counts") or {}).items()}, None, 0)


def lines(tasks: Mapping[str, Mapping[str, Any]], *, void: bool | None = None) -> list[str]:
    """Returns a line for each doubt of some tasks; with `void` only for those that are void, or are not."""
    return [
        f"{task}: {doubt.sentence}"
        for task, results in tasks.items()
        for doubt in of_results(results)
        if void is None or doubt.void is void
    ]


def no_result(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the tasks whose metrics are not a result, each with a line that says why."""
    reasons: dict[str, str] = {}
    for task, results in tasks.items():
        for doubt in of_results(results):
            if doubt.void:
                reasons.setdefault(task, f"{task}: {doubt.sentence}")
    return reasons


def of_counts(
    counts: Mapping[str, int], unread: Doubt | None, unread_items: int, *, declined: int = 0, blind: bool = False
) -> list[Doubt]:
    """Returns the doubts that follow from the outcomes of a task's items.

    A value lies between that with every missing answer wrong and that with every one right. Where more than half of the
    items have none, this is more than half of the scale.

    Args:
        counts: Planned items and outcomes.
        unread: Says that most answers could not be read; None where most could.
        unread_items: Answers that state something which could not be read.
        declined: Answers that were read as saying that they have none.
        blind: Whether the images were replaced: then to decline is an answer.
    """
    total = {name: counts.get(name, 0) for name in ("planned", *Outcome)}
    planned = total["planned"]
    if not planned:
        return []
    if total[Outcome.REJECTED] == planned:
        return [Doubt(Cause.UNASKED, f"no result, since the model was never asked: {outcomes(total)}", void=True)]
    if not any(total[outcome] for outcome in (*ANSWERED, Outcome.REFUSED)):
        return [Doubt(Cause.UNANSWERED, f"no result: {outcomes(total)}", void=True)]
    if unread:
        return [unread]
    missing = {name: total[name] for name in (Outcome.REJECTED, Outcome.UNJUDGED, Outcome.FAILED)}
    missing[Outcome.UNPARSED] = unread_items
    if 2 * sum(missing.values()) > planned:
        addends = " + ".join(f"{number:,} {name}" for name, number in missing.items() if number)
        return [Doubt(Cause.UNANSWERED, f"no result: of {planned:,} items {addends}, more than half", void=True)]
    declined += total[Outcome.REFUSED]
    if blind or 2 * declined <= planned:
        return []
    if not total[Outcome.SCORED]:
        return [
            Doubt(Cause.DECLINED, f"no result: none of {planned:,} items has an answer, {outcomes(total)}", void=True)
        ]
    return [Doubt(Cause.DECLINED, f"the model declined to answer {declined:,} of {planned:,} items")]


def may_be(doubt: Doubt, counts: Mapping[str, int], allowed: Collection[str]) -> bool:
    """Returns whether the outcomes that cause a void doubt are among the allowed ones."""
    if doubt.cause == Cause.UNREAD:
        return Outcome.UNPARSED in allowed
    missing = (Outcome.REJECTED, Outcome.UNJUDGED, Outcome.FAILED, Outcome.UNPARSED)
    return doubt.cause == Cause.UNANSWERED and all(name in allowed for name in missing if counts[name])


def of_group(tasks: Mapping[str, Sequence[Doubt]]) -> list[Doubt]:
    """Returns the doubts of a group over some tasks: its metrics are not a result if those of a task are not."""
    bad = [task for task, doubts in tasks.items() if any(doubt.void for doubt in doubts)]
    if not bad:
        return []
    more = f" and {len(bad) - 1:,} more tasks" if len(bad) > 1 else ""
    return [Doubt(Cause.TASKS, f"no result, since {bad[0]}{more} of its {len(tasks):,} tasks have none", void=True)]


def outcomes(total: Mapping[str, int], always: str = "") -> str:
    """Returns counts by outcome as text: 3,790 scored + 60 unparsed."""
    return " + ".join(f"{total[name]:,} {name}" for name in Outcome if total[name] or name == always)
