"""Runs in a folder, followed as they grow."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

from lyncean.errors import UserError
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.cut import cut_counts, total
from orchestrator.run_folder.files import find_runs
from orchestrator.run_folder.key_table import KeyTable
from orchestrator.run_folder.lines import CountedLine
from orchestrator.run_folder.lock import is_written
from orchestrator.run_folder.metrics import OUTCOMES, answered_results, counts, overall
from orchestrator.run_folder.reader import Run, named_run
from orchestrator.run_folder.state import RunState, state
from orchestrator.run_folder.tail import Tails
from orchestrator.run_folder.validity import lines

DEPTH = 3
_STALE_SECONDS = 120
"""Seconds after its last growth in which a run counts as running."""

_DOUBLE, _INTEGER = struct.Struct("<d"), struct.Struct("<Q")


class Tally:
    """Number of answered calls and outcomes of the items, in 25 bytes a slot for keys of any length."""

    _ANSWERED, _OUTCOME, _NONE_OF_THEM = 1, 0b1110, 0b111

    def __init__(self) -> None:
        self._table = KeyTable()
        self._sum = 0.0
        self.answered = self.judged = 0
        self.counts = dict.fromkeys(OUTCOMES, 0)

    @property
    def mean(self) -> float | None:
        """Mean score over the items that have a verdict, None where it is of less than half of them."""
        return self._sum / self.judged if 0 < self.judged <= 2 * self.counts[Outcome.SCORED] else None

    def answer(self, line: CountedLine) -> None:
        """Counts a line of responses.jsonl."""
        before = self._table.put(line.key, flags=self._ANSWERED, mask=self._ANSWERED)
        self.answered += not (before and before[1] & self._ANSWERED)

    def judge(self, line: CountedLine) -> None:
        """Counts a line of verdicts.jsonl in place of an earlier one of the item."""
        score = float(line.score) if isinstance(line.score, int | float) else 0.0
        flags = (OUTCOMES.index(line.outcome) + 1 if line.outcome in OUTCOMES else self._NONE_OF_THEM) << 1
        (number,) = _INTEGER.unpack(_DOUBLE.pack(score))
        before = self._table.put(line.key, number=number, flags=flags, mask=self._OUTCOME)
        if before and before[1] & self._OUTCOME:
            (earlier,) = _DOUBLE.unpack(_INTEGER.pack(before[0]))
            self._count(before[1] >> 1, -1, -earlier)
        self._count(flags >> 1, 1, score)

    def _count(self, outcome: int, items: int, score: float) -> None:
        self.judged += items
        self._sum += score
        if outcome <= len(OUTCOMES):
            self.counts[OUTCOMES[outcome - 1]] += items


class Followed:
    """One run, followed."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._tails = Tails(path)
        self._tally = Tally()
        self._complete: tuple[tuple[float, ...], dict[str, Any]] | None = None
        self._size: int | None = None
        self._grown: float | None = None

    def state(self) -> dict[str, Any]:
        """Returns what the page shows of the run now; the logs of a complete run are not read, its results count."""
        stamp = self.stamp()
        if self._complete and self._complete[0] == stamp:
            return self._complete[1]
        try:
            run = self.run()
            shown = _about(run)
        except (UserError, AttributeError, TypeError, ValueError):
            # Its page says what is wrong; or it is seen in the middle of being written.
            run = Run(self.path, {}, {}, self.name)
            shown = _about(run)
        if not run.tasks:
            self._complete = None
            self._follow()
            tally = self._tally
            current = {
                "state": self._state(run),
                "answered": tally.answered,
                "counts": tally.counts,
                "mean": tally.mean,
            }
            return shown | current
        items = {name: count for name, count in counts(run.tasks).items() if name != "planned"}
        cut = total(cut_counts(run.tasks)).items
        final = {"state": RunState.COMPLETE, "answered": sum(items.values()), "counts": items, "cut": cut, "mean": None}
        self._complete = (stamp, shown | final)
        return self._complete[1]

    def _follow(self) -> None:
        if self._tails.replaced():
            self._tally = Tally()
        for line in self._tails.responses.lines():
            self._tally.answer(line)
        for line in self._tails.verdicts.lines():
            self._tally.judge(line)

    def run(self) -> Run:
        """Returns the run as it is now.

        Raises:
            ConfigError: It is damaged.
        """
        return named_run(self.path, self.name)

    def stamp(self) -> tuple[float, ...]:
        """Returns what changes whenever the run's page would."""
        return (*self._tails.changed(), is_written(self.path))

    def _state(self, run: Run) -> RunState:
        """Returns the run's state; one that grows while it is followed is written to, if by another machine."""
        now, size = time.monotonic(), self._tally.answered + self._tally.judged
        if self._size is not None and size != self._size:
            self._grown = now
        self._size = size
        current = state(run)
        grows = self._grown is not None and now - self._grown < _STALE_SECONDS
        return RunState.RUNNING if current is RunState.STOPPED and grows else current


def _about(run: Run) -> dict[str, Any]:
    """Returns what manifest and results say of a run."""
    planned = run.manifest.get("planned")
    return {
        "name": run.name,
        "model": run.model_name,
        "tool": str(run.identity.get("imported", "")),
        "tasks": [str(task) for task in run.identity.get("tasks") or ()],
        "method": str(run.identity.get("method", "")),
        "blind": bool(run.identity.get("blind")),
        "created": str(run.manifest.get("created", "")),
        "total": sum(planned.values()) if planned else run.manifest.get("expected"), "estimated": not planned,
        "metrics": [
            {
                "task": metric.task, "name": metric.name, "shown": metric.text(metric.value), "value": metric.value,
                "interval": metric.interval, "n": metric.denominator,
            }
            for metric in overall(answered_results(run.tasks_and_groups))
        ],
        "doubts": lines(run.tasks_and_groups),
        "part": _part(run),
    }  # fmt: skip


def _part(run: Run) -> str:
    """Returns which part of its samples a run asked, in a few words; "" for all."""
    shard = run.manifest.get("shard") or {}
    parts = [f"shard {shard['index']}/{shard['of']}"] if shard else []
    briefs = [note.brief for note in run.notes if note.brief]
    parts += briefs[:1] + ([f"{len(briefs) - 1} more tasks in part"] if len(briefs) > 1 else [])
    return ", ".join(parts)


def shown_path(path: Path) -> str:
    """Returns a path with forward slashes, bytes that are no UTF-8 replaced: it can be sent."""
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Folder:
    """The runs in a folder, found anew at each look."""

    def __init__(self, path: Path) -> None:
        self.title, self.problem = shown_path(path), ""
        self.path = path
        self._known: dict[str, Followed] = {}

    def runs(self) -> dict[str, Followed]:
        """Returns the runs by their names: their places in the folder, with forward slashes."""
        runs = {}
        for run in find_runs(self.path, DEPTH - 1):
            path_shown = shown_path(run.relative_to(self.path))
            name = shown_path(self.path.resolve()).rpartition("/")[2] if path_shown == "." else path_shown
            runs[name] = self._known.get(name) or Followed(run, name)
        self._known = runs
        return runs
