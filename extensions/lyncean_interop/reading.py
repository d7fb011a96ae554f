"""Reads files of other tools in a cell: a file that lies about itself takes that process alone."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from lyncean.cell import Cell, CellError, Fence
from lyncean.errors import UserError
from lyncean_interop.answers import ToolAnswers
from orchestrator import ConfigError, DataError

MEMORY = 4 << 30
"""Bytes that reading a file may take; an archive unpacks to as many at most."""
SECONDS = 3600.0
"""Processor time that reading a file may take."""

_ANSWERS = "answers.json"


def read_answers(module: str, path: Path, task: str | None = None, model: str | None = None) -> ToolAnswers:
    """Returns what a module's `read` reads in a file.

    Args:
        module: Module of this package.
        path: The file.
        task: The task's name; None for what the file says.
        model: The model's name, likewise.

    Raises:
        DataError: The file cannot be read, or takes more memory or time than it may.
        ConfigError: A package that reads it is missing.
    """
    path = path.resolve()
    with tempfile.TemporaryDirectory(prefix="lyncean-") as folder:
        fence = Fence((str(path), *_beside(path)), (folder,), memory=MEMORY, file_size=MEMORY)
        # Without a layer, as on other systems than Linux, a process of its own is still better than ours.
        cell = Cell(f"{__name__}:setup", {"module": module, "folder": folder}, fence, layers=())
        try:
            problem = cell.call("read", str(path), task, model, seconds=SECONDS)
        except CellError as error:
            why = f"it takes more {error.limit} than it may: {error}" if error.limit else str(error)
            raise DataError(f"{path.name} cannot be read: {why}") from None
        finally:
            cell.close()
        if problem:
            raise (ConfigError if problem["config"] else DataError)(problem["message"])
        try:
            return msgspec.json.decode((Path(folder) / _ANSWERS).read_bytes(), type=ToolAnswers)
        except msgspec.DecodeError as error:  # JSON has null in place of a number that is not finite
            raise DataError(f"{path.name} cannot be read: a value is not a finite number: {error}") from None


def _beside(path: Path) -> tuple[str, ...]:
    """Returns the file of results that lmms-eval writes beside its samples, where it is there."""
    results = path.with_name(f"{path.name.partition('samples_')[0]}results.json")
    return (str(results),) if "samples_" in path.name and results.is_file() else ()


def setup(module: str, folder: str) -> dict[str, Callable[..., Any]]:
    """Returns the functions of the cell: `read` writes a file's answers into the folder, or returns what is wrong."""
    reader = importlib.import_module(f"lyncean_interop.{module}")

    def read(path: str, task: str | None, model: str | None) -> dict[str, Any] | None:
        try:
            answers = reader.read(Path(path), task, model)
        except UserError as error:
            return {"message": str(error), "config": isinstance(error, ConfigError)}
        (Path(folder) / _ANSWERS).write_bytes(msgspec.json.encode(answers, enc_hook=str))
        return None

    return {"read": read}
