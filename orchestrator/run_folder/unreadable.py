"""Tasks of which most answers could not be read, and the doubts that a run's counts and logs show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from lyncean.vocabulary.outcomes import READ, Outcome
from lyncean.vocabulary.reasons import Reason
from orchestrator.run_folder.lines import CountedLine
from orchestrator.run_folder.metrics import counts
from orchestrator.run_folder.validity import Cause, Doubt, of_counts

_KEPT = 200
"""Characters of an example that `results.json` has."""
_WITHOUT_WORDS = (Outcome.REJECTED, Outcome.UNJUDGED, Outcome.FAILED)
_DECLINED = {Reason.ABSTAINED, Reason.RETRACTED}
_UNDERSTOOD = _DECLINED | {"earlier_turn"}
"""Reasons by which an unparsed answer was read well: it says that it has no answer, or it is empty."""


class Logs(Protocol):
    """The logs of a run as `reader.Run` has them."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Its identity."""

    def unscored(self) -> Iterator[CountedLine]:
        """Yields the last verdict of each item that is not scored."""

    def read(self, keys: Iterable[str]) -> Iterator[Any]:
        """Yields the items of some keys."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A task's answers that could not be read.

    Attributes:
        task: The task.
        count: Number of them.
        answers: Number of all its answers.
        key: The item of the example.
        text: The model's answer there.
        target: A right answer there, "" without one.
    """

    task: str
    count: int
    answers: int
    key: str = ""
    text: str = ""
    target: str = ""

    @property
    def most(self) -> bool:
        """True if it is more than half of the answers."""
        return 2 * self.count > self.answers

    @property
    def doubt(self) -> Doubt:
        """The fact as a doubt of the task's results."""
        text = f"{self.count:,} of {self.answers:,} answers could not be read"
        text += ", so its results say nothing about the model"
        return Doubt(Cause.UNREAD, text, True, self.key, self.text[:_KEPT], self.target[:_KEPT])

    def __str__(self) -> str:
        """Returns the fact with its example, one line for a terminal."""
        return f"{self.task}: {self.doubt.sentence}"


def understood(reason: str) -> bool:
    """Returns whether an unparsed answer with this reason was read well."""
    return reason in _UNDERSTOOD


def from_logs(run: Logs, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Doubt]]:
    """Returns the doubts about the tasks of a complete run from the outcomes of their items.

    The logs are read if so many answers are unparsed that their reasons matter.

    Raises:
        ConfigError: If a line of the run is damaged.
        RunLogError: If a verdict is damaged.
    """
    totals = {task: counts({task: results}) for task, results in tasks.items()}
    lost = {task: sum(total[name] for name in _WITHOUT_WORDS) for task, total in totals.items()}
    suspected = [
        task for task, total in totals.items()
        if 2 * total["unparsed"] > _answers(total) or 2 * (lost[task] + total["unparsed"]) > total["planned"]
    ]  # fmt: skip
    keys: dict[str, list[str]] = {task: [] for task in suspected if totals[task]["unparsed"]}
    declined: Counter[str] = Counter()
    for verdict in run.unscored() if keys else ():
        task = verdict.key.partition("/")[0]
        if task in keys and verdict.outcome == Outcome.UNPARSED:
            declined[task] += verdict.reason in _DECLINED
            if not understood(verdict.reason):
                keys[task].append(verdict.key)
    blind = bool(run.identity.get("blind"))
    # An answer that a reference's rules or another tool cannot read counts as wrong there.
    other = bool(run.manifest.get("scored_by") or run.identity.get("parity"))
    doubts = {}
    for task, total in totals.items():
        unread = keys.get(task, [])
        doubt = _unread(run, task, unread, _answers(total))
        if other:
            doubts[task] = [*of_counts(total, None, 0, blind=True), *([replace(doubt, void=False)] if doubt else [])]
        else:
            doubts[task] = of_counts(total, doubt, len(unread), declined=declined[task], blind=blind)
    return doubts


def _unread(run: Logs, task: str, keys: Sequence[str], answers: int) -> Doubt | None:
    """Returns the fact that most answers of a task could not be read, with an example; None if most could."""
    if not Unreadable(task, len(keys), answers).most:
        return None
    (item,) = run.read([min(keys)])
    targets = item.verdict.get("targets") or item.scoring.get("targets") or [""]
    return Unreadable(task, len(keys), answers, item.key, item.text, str(targets[0])).doubt


def _answers(total: dict[str, int]) -> int:
    return sum(total[outcome] for outcome in READ)
