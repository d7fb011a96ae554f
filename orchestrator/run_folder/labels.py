"""People's labels of a run's answers: `labels.jsonl`, append-only, one line for each label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lyncean.statistics.intervals import wilson
from orchestrator.run_folder.appender import Appender
from orchestrator.run_folder.errors import RunLogError, write_error
from orchestrator.run_folder.files import LABELS
from orchestrator.run_folder.lines import LabelLine, encode
from orchestrator.run_folder.lock import lock
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.scanning import scan

_LOOKS = 100
"""Attempts at the lock, two seconds in all: other writers hold it only for one label."""

Labels = dict[str, dict[str, LabelLine]]
"""Person -> key -> the last line, lines that were taken back left out."""


def append(run: Path, line: LabelLine) -> None:
    """Writes a label to the disk; several processes may do so in turn.

    Raises:
        RunBusyError: If a process writes to the folder at length, for example scores it again.
        RunWriteError: If the folder cannot be written.
    """
    with ExitStack() as opened:
        try:
            held = lock(run, _LOOKS)
            opened.callback(held.close)
            log = Appender(run / LABELS, held)
        except OSError as error:
            raise write_error(run / LABELS, error) from error
        opened.callback(log.close)
        log.add(encode(line))


def read(run: Path) -> tuple[int | None, Labels]:
    """Returns the seed of the labels' order, None without labels, and the labels.

    Raises:
        RunLogError: If a line is damaged, or the lines have several seeds.
    """
    labels: Labels = {}
    seeds = set()
    for _, line in scan(run / LABELS, LabelLine):
        seeds.add(line.seed)
        mine = labels.setdefault(line.by, {})
        mine.pop(line.key, None)
        if line.mark != "undone":
            mine[line.key] = line
    if len(seeds) > 1:
        raise RunLogError(
            f"{run / LABELS} holds labels of several seeds ({', '.join(map(str, sorted(seeds)))}): they are not a "
            "uniform sample together; delete the lines of all but one"
        )
    return next(iter(seeds), None), labels


def _kinds(labels: Labels, task: str) -> Mapping[str, Mapping[str, float]]:
    """Returns the kinds of error that people name for each answer of a task; several share it equally."""
    named: dict[str, list[str]] = {}
    for mine in labels.values():
        for key, line in mine.items():
            if line.kind and key.partition("/")[0] == task:
                named.setdefault(key, []).append(line.kind)
    return {key: {kind: kinds.count(kind) / len(kinds) for kind in kinds} for key, kinds in named.items()}


def scores(labels: Labels) -> Mapping[str, list[float]]:
    """Returns the scores of each labelled item, one of each person."""
    by_key: dict[str, list[float]] = {}
    for mine in labels.values():
        for key, line in mine.items():
            if isinstance(line.score, float):
                by_key.setdefault(key, []).append(line.score)
    return by_key


@dataclass(frozen=True, slots=True)
class ErrorKinds:
    """The kinds of error that people name in wrong answers of a task.

    Attributes:
        answers: Number of wrong answers that have a kind.
        shares: Kind -> its share of them, the most frequent first.
    """

    task: str
    answers: int
    shares: Mapping[str, float]

    def interval(self, kind: str) -> tuple[float, float]:
        """Returns Wilson's 95% interval of a share, for one answer drawn like the others."""
        return wilson(self.answers * self.shares.get(kind, 0.0), self.answers)

    @property
    def rows(self) -> Sequence[tuple[str, str, str]]:
        """Each kind with its share and interval in percent."""
        ends = {kind: [f"{100 * end:.1f}" for end in self.interval(kind)] for kind in self.shares}
        return [(kind, f"{100 * share:.1f}", f"[{', '.join(ends[kind])}]") for kind, share in self.shares.items()]


def error_kinds(run: Run) -> list[ErrorKinds]:
    """Returns the kinds of error in each task of a run that has any.

    Raises:
        RunLogError: If a label is damaged.
    """
    labels, kinds_by_task = read(run.path)[1], []
    for task in run.tasks:
        if named := _kinds(labels, task):
            sums: dict[str, float] = {}
            for kinds in named.values():
                for kind, part in kinds.items():
                    sums[kind] = sums.get(kind, 0.0) + part
            shares = {kind: sums[kind] / len(named) for kind in sorted(sums, key=lambda kind: (-sums[kind], kind))}
            kinds_by_task.append(ErrorKinds(task, len(named), shares))
    return kinds_by_task
