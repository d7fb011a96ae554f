"""Reads files of other tools in a cell, so that a malicious file harms that process alone."""

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
"""Memory limit for reading a file in bytes; also the limit of an unpacked archive."""
SECONDS = 3600.0
"""Processor time limit for reading a file, in seconds."""

_ANSWERS = "answers.json"


def read_answers(module: str, path: Path, task: str | None = None, model: str | None = None) -> ToolAnswers:
    """Returns the answers that a module's `read` reads from a file.

    Args:
        module: Module of this package.
        path: The file.
        task: The task's name; None for the name in the file.
        model: The model's name, likewise.

    Raises:
        DataError: The file cannot be read, or exceeds the limits of memory or time.
        ConfigError: A package that reads it is missing.
    """
    path = path.resolve()
    with tempfile.TemporaryDirectory(prefix="lyncean-") as folder:
        fence = Fence((str(path), *_beside(path)), (folder,), memory=MEMORY, file_size=MEMORY)
        # On systems without layers (other than Linux), a separate process still protects ours.
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
    """Returns the file of results that lmms-eval writes beside its samples, if it exists."""
    results = path.with_name(f"{path.name.partition('samples_')[0]}results.json")
    return (str(results),) if "samples_" in path.name and results.is_file() else ()


def setup(module: str, folder: str) -> dict[str, Callable[..., Any]]:
    """Returns the functions of the cell: `read` writes a file's answers into the folder, or returns the error."""
    reader = importlib.import_module(f"lyncean_interop.{module}")

    def read(path: str, task: str | None, model: str | None) -> dict[str, Any] | None:
        try:
            answers = reader.read(Path(path), task, model)
        except UserError as error:
            return {"message": str(error), "config": isinstance(error, ConfigError)}
        (Path(folder) / _ANSWERS).write_bytes(msgspec.json.encode(answers, enc_hook=str))
        return None

    return {"read": read}
