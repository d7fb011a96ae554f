"""suite.json: the cells of a suite's folder, and the last end of each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
import orjson

from orchestrator.errors import ConfigError
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.manifest import write

FILE = "suite.json"
_NO_NUMBERS = frozenset(
    {"run", "concurrency", "timeout", "patience", "max_requests_per_second", "max_tokens_total", "max_cost", "deadline"}
    | {"max_unparsed", "max_failed", "max_rejected", "max_unjudged", "credentials", "progress", "judge_cache"}
)
"""Fields of a request that change no number of a complete run."""


@dataclass(slots=True)
class RecordedCell:
    """One cell.

    Attributes:
        name: Name of its run folder.
        model: The model's name in the suite.
        variant: The variant's name, "" without one.
        tasks: Names of its tasks.
        request: Hash of the request that its results are of; "" as long as it is not complete.
        exit_code: Exit code of its last end, None before the first.
        error: The reason, "" if it is complete.
        step: The training step of its model, None where the model is not a checkpoint of a series.
        checkpoint: The checkpoint's folder as it was found, "" where the model is none.
        fingerprint: What tells its files from others of the same names (`checkpoints.fingerprint`).
    """

    name: str
    model: str
    variant: str
    tasks: Sequence[str]
    request: str = ""
    exit_code: int | None = None
    error: str = ""
    step: int | None = None
    checkpoint: str = ""
    fingerprint: str = ""


@dataclass(slots=True)
class Record:
    """A suite's folder.

    Attributes:
        suite: The suite's name.
        baseline: The model that the gate compares with, `previous` or `best` for one of those before, "" for none.
        gate: The gate, "" for none.
        cells: The cells, in the suite's order.
    """

    suite: str
    baseline: str
    gate: str
    cells: list[RecordedCell]

    def save(self, folder: Path) -> None:
        """Writes it into the suite's folder atomically.

        Raises:
            RunWriteError: If it cannot be written.
        """
        write(folder / FILE, msgspec.to_builtins(self))


def read(folder: Path) -> Record:
    """Returns the record of a suite's folder.

    Raises:
        ConfigError: If it is not the folder of a suite, or is damaged.
    """
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        raise ConfigError(f"{folder} is not the folder of a suite: {FILE} is missing") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}): delete it and run the suite again, which asks nothing twice"
        ) from error


def hash_of(request: RunRequest, checkpoint: str = "") -> str:
    """Returns the sha256 of all fields of a request that may change a number.

    Args:
        request: The request.
        checkpoint: Fingerprint of the checkpoint that is its model, which may lie elsewhere another time.
    """
    content = {field.name: getattr(request, field.name) for field in fields(request) if field.name not in _NO_NUMBERS}
    if checkpoint:
        content["model"] = checkpoint
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS, default=str)).hexdigest()
