"""What a run of a part of its samples keeps beside its logs: items beyond a stop, and scores of other runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import orjson

from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import AGAINST, BEYOND, RESPONSES, SHARE
from orchestrator.run_folder.lines import SampleLine
from orchestrator.run_folder.manifest import write as write_json
from orchestrator.run_folder.scanning import scan

T = TypeVar("T")


def write(run: Path, kept: Collection[str]) -> dict[str, int]:
    """Writes down the items of a run that do not count, and returns their number by task.

    Args:
        run: The run folder.
        kept: Keys of the samples that count.
    """
    keys = sorted({line.key for _, line in scan(run / RESPONSES, SampleLine) if line.sample not in kept})
    if keys or (run / BEYOND).exists():
        write_json(run / BEYOND, {"keys": keys})
    return Counter(key.split("/", 1)[0] for key in keys)


def read(run: Path) -> frozenset[str]:
    """Returns the keys of the items of a run that do not count.

    Raises:
        RunLogError: If the file is damaged.
    """
    return frozenset(map(str, _read(run / BEYOND, "keys", list)))


def write_base(run: Path, name: str, scores: Mapping[str, Any]) -> None:
    """Writes down the scores of the run that this one is compared with, by item key."""
    write_json(run / AGAINST, {"run": name, "scores": scores})


def base(run: Path) -> tuple[str, dict[str, Any]]:
    """Returns name and scores of the run that this one is compared with, the scores by item key; empty without one.

    Raises:
        RunLogError: If the file is damaged.
    """
    return str(_read(run / AGAINST, "run", str)), _read(run / AGAINST, "scores", dict)


def write_share(run: Path, runs: Sequence[str], tasks: Mapping[str, Any]) -> None:
    """Writes down what a run of a random share of its samples is estimated from.

    Args:
        run: The run folder.
        runs: Names of the runs whose scores are used.
        tasks: Task -> its metric, how many units are asked, and all units in random order, each as [name, items,
            scores of the runs].
    """
    write_json(run / SHARE, {"runs": list(runs), "tasks": dict(tasks)}, indent=False)


def share(run: Path) -> tuple[list[str], dict[str, Any]]:
    """Returns what `write_share` wrote: the runs' names and the tasks.

    Raises:
        RunLogError: If the file is damaged.
    """
    return list(map(str, _read(run / SHARE, "runs", list))), _read(run / SHARE, "tasks", dict)


def _read(path: Path, field: str, kind: type[T]) -> T:
    """Returns a field of a file, empty where there is no file."""
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return kind()
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not isinstance(value := found.get(field), kind):
        raise RunLogError(f"{path} is damaged, it has no {field}: restore it, or run the command of the run again")
    return value
