"""Files beside the logs of a run of a part of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import orjson

from orchestrator.run_folder.errors import RunLogError

T = TypeVar("T")


def read(path: Path, field: str, kind: type[T]) -> T:
    """Returns a field of such a file, empty where there is no file.

    Raises:
        RunLogError: If the file is damaged.
    """
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return kind()
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not isinstance(value := found.get(field), kind):
        raise RunLogError(f"{path} is damaged, it has no {field}: restore it, or run the command of the run again")
    return value
