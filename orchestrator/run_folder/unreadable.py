"""Tasks of which most answers could not be read: their results say nothing about the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lyncean.errors import printable
from lyncean.vocabulary.outcomes import READ, Outcome
from lyncean.vocabulary.reasons import Reason
from orchestrator.run_folder.metrics import counts
from orchestrator.run_folder.reader import Run

_LONGEST = 100
_UNDERSTOOD = {Reason.ABSTAINED, Reason.RETRACTED, "earlier_turn"}
"""Reasons by which an unparsed answer was read well: it says that it has none; or there was no answer to read."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A task's answers that could not be read.

    Attributes:
        task: The task.
        count: How many there are.
        answers: Of how many answers.
        key: The item of the example.
        text: What the model answered there.
        target: A right answer there, "" where it has none.
    """

    task: str
    count: int
    answers: int
    key: str = ""
    text: str = ""
    target: str = ""

    @property
    def most(self) -> bool:
        """Whether it is more than half of the answers."""
        return 2 * self.count > self.answers

    def __str__(self) -> str:
        """Returns the fact with its example, one line for a terminal."""
        words = f"{self.task}: {self.count:,} of {self.answers:,} answers could not be read"
        words += ", so its results say nothing about the model"
        if self.key:
            words += f"; {self.key} says {excerpt(self.text)}"
            words += f" where {excerpt(self.target)} is right" if self.target else ""
        return printable(words)


def excerpt(text: str) -> str:
    """Returns the beginning of a text, in quotes and on one line."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"}"' if line else "nothing"


def understood(reason: str) -> bool:
    """Whether an unparsed answer with this reason was read well."""
    return reason in _UNDERSTOOD


def unreadable(run: Run) -> Sequence[Unreadable]:
    """Returns the tasks of a complete run of which most answers could not be read, with an example each.

    Raises:
        ConfigError: A line of the run is damaged.
        RunLogError: A verdict is damaged.
    """
    totals = {task: counts({task: found}) for task, found in run.tasks.items()}
    suspected = [task for task, total in totals.items() if 2 * total["unparsed"] > _answers(total)]
    if not suspected:
        return []
    keys: dict[str, list[str]] = {task: [] for task in suspected}
    for verdict in run.unscored():
        task = verdict.key.partition("/")[0]
        if task in suspected and verdict.outcome == Outcome.UNPARSED and not understood(verdict.reason):
            keys[task].append(verdict.key)
    found = []
    for task, those in keys.items():
        one = Unreadable(task, len(those), _answers(totals[task]))
        if one.most:
            (item,) = run.read([min(those)])
            targets = item.verdict.get("targets") or item.scoring.get("targets") or [""]
            found.append(replace(one, key=item.key, text=item.text, target=str(targets[0])))
    return found


def _answers(total: dict[str, int]) -> int:
    return sum(total[outcome] for outcome in READ)
