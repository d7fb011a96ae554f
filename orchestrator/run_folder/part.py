"""Files beside the logs of a run of a part of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import orjson

from orchestrator.run_folder.errors import RunLogError

T = TypeVar("T")


def read(path: Path, field: str, kind: type[T]) -> T:
    """Returns a field of such a file, empty if the file is missing.

    Raises:
        RunLogError: If the file is damaged.
    """
    try:
        fields = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return kind()
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict) or not isinstance(value := fields.get(field), kind):
        raise RunLogError(f"{path} is damaged, it has no {field}: restore it, or run the command of the run again")
    return value
