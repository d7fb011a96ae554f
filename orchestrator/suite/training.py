"""A suite's folder as a training, for its page: the checkpoints, and their place in the last leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from orchestrator.compare.curve import Training
from orchestrator.compare.series import Change
from orchestrator.errors import ConfigError
from orchestrator.run_folder.files import has_results
from orchestrator.run_folder.reader import Run, open_run
from orchestrator.suite import record as records
from orchestrator.suite.outputs import source
from orchestrator.suite.record import FILE, Record
from orchestrator.suite.series import checkpoints

LEADERBOARD, PAGE = "leaderboard.json", "series.html"
_LAST_STEP = 2**53


class _Gate(msgspec.Struct):
    unjudged: Sequence[str] = ()


class _Leaderboard(msgspec.Struct):
    gate: _Gate = msgspec.field(default_factory=_Gate)
    changes: Sequence[Change] = ()


@dataclass(frozen=True, slots=True)
class EvaluatedSeries:
    """The results of a suite with checkpoints, as exports take them.

    Attributes:
        name: The suite's name.
        steps: Name of each checkpoint -> its step.
        checkpoints: Step of each checkpoint, and variant and run of each of its cells that has results, by step.
        page: Path of its page, which may be missing.
    """

    name: str
    steps: Mapping[str, int]
    checkpoints: Sequence[tuple[int, Sequence[tuple[str, Run]]]]
    page: Path


def evaluated(folder: Path) -> EvaluatedSeries:
    """Returns the results of a suite's folder; cells that are not complete have none.

    Raises:
        ConfigError: If it is not the folder of a suite with checkpoints, or is damaged.
    """
    training = read(folder)
    runs: dict[int, list[tuple[str, Run]]] = {}
    for cell in training.sources:
        if not cell.failed and has_results(cell.path):
            runs.setdefault(training.steps[cell.model], []).append((cell.variant, open_run(cell.path)))
    return EvaluatedSeries(training.name, training.steps, list(runs.items()), folder / PAGE)


def is_series(folder: Path) -> bool:
    """Returns whether a folder is a suite's that has checkpoints, and is not damaged."""
    try:
        return (folder / FILE).is_file() and bool(checkpoints(_record(folder)))
    except ConfigError:
        return False


def read(folder: Path, name: str = "") -> Training:
    """Returns the training of a suite's folder; it is called as the suite if no name is given.

    Raises:
        ConfigError: If it is not the folder of a suite with checkpoints, or is damaged.
    """
    record = _record(folder)
    series = checkpoints(record)
    if not series:
        raise ConfigError(f"{folder} has no checkpoints: run its suite with --checkpoints")
    judged = _leaderboard(folder / LEADERBOARD)
    return Training(
        name or record.suite,
        {checkpoint.name: checkpoint.step for checkpoint in series},
        [source(cell, folder) for checkpoint in series for cell in checkpoint.cells],
        record.baseline,
        [source(cell, folder) for cell in record.cells if cell.step is None and cell.model == record.baseline],
        judged.changes,
        judged.gate.unjudged,
    )


def named(folders: Sequence[Path]) -> list[Training]:
    """Returns trainings by the names of their suites, or of their folders where two suites have the same name.

    Raises:
        ConfigError: If one is not the folder of a suite with checkpoints, or is damaged.
    """
    trainings = [read(folder) for folder in folders]
    names = [training.name for training in trainings]
    return [
        replace(training, name=str(folder)) if names.count(training.name) > 1 else training
        for training, folder in zip(trainings, folders, strict=True)
    ]


def _record(folder: Path) -> Record:
    """Returns the record of a folder that may come from elsewhere: its cells lie in it, its steps can be drawn."""
    record = records.read(folder)
    for cell in record.cells:
        if Path(cell.name).name != cell.name or cell.name in ("", "..") or abs(cell.step or 0) > _LAST_STEP:
            raise ConfigError(
                f"{folder / FILE} is damaged: it has a cell {cell.name!r} at step {cell.step}: "
                "delete it and run the suite again, which asks nothing twice"
            )
    return record


def _leaderboard(path: Path) -> _Leaderboard:
    """Returns a gate's last verdict; nothing if the suite has no leaderboard yet."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Leaderboard)
    except FileNotFoundError:
        return _Leaderboard()
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): run the suite again, which asks nothing twice") from error
