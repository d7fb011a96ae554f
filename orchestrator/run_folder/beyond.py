"""What a run that stopped early leaves aside: items answered beyond its stop, and the scores it was compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson

from orchestrator.run_folder.files import AGAINST, BEYOND, RESPONSES
from orchestrator.run_folder.lines import SampleLine
from orchestrator.run_folder.log import RunLogError, scan
from orchestrator.run_folder.manifest import write as write_json


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
    return frozenset(_read(run / BEYOND).get("keys", ()))


def write_base(run: Path, name: str, scores: Mapping[str, Any]) -> None:
    """Writes down the scores of the run that this one is compared with, by item key."""
    write_json(run / AGAINST, {"run": name, "scores": scores})


def base(run: Path) -> tuple[str, dict[str, Any]]:
    """Returns name and scores of the run that this one is compared with, the scores by item key; empty without one.

    Raises:
        RunLogError: If the file is damaged.
    """
    found = _read(run / AGAINST)
    return str(found.get("run", "")), found.get("scores", {})


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
        return found
    except FileNotFoundError:
        return {}
    except orjson.JSONDecodeError as error:
        raise RunLogError(f"{path} is damaged ({error}): run the command of the run again") from error
