"""What people say of a run's answers: `labels.jsonl`, append-only, one line for each label."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from orchestrator.run_folder.appender import Appender
from orchestrator.run_folder.errors import RunLogError, write_error
from orchestrator.run_folder.files import LABELS
from orchestrator.run_folder.lines import LabelLine, encode
from orchestrator.run_folder.lock import lock
from orchestrator.run_folder.scanning import scan

_LOOKS = 100
"""Others hold the folder for as long as a label takes: two seconds are enough for many."""

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
    """Returns the seed of the order that the labels were given in, None without labels, and the labels.

    Raises:
        RunLogError: If a line is damaged, or the lines have several seeds.
    """
    found: Labels = {}
    seeds = set()
    for _, line in scan(run / LABELS, LabelLine):
        seeds.add(line.seed)
        mine = found.setdefault(line.by, {})
        mine.pop(line.key, None)
        if line.mark != "undone":
            mine[line.key] = line
    if len(seeds) > 1:
        raise RunLogError(
            f"{run / LABELS} holds labels of several seeds ({', '.join(map(str, sorted(seeds)))}): they are no uniform "
            "sample together; delete the lines of all but one"
        )
    return next(iter(seeds), None), found


def scores(labels: Labels) -> Mapping[str, list[float]]:
    """Returns the scores of each item that has any, one of each person who gave one."""
    found: dict[str, list[float]] = {}
    for mine in labels.values():
        for key, line in mine.items():
            if isinstance(line.score, float):
                found.setdefault(key, []).append(line.score)
    return found
