"""Scores of several runs item by item, as one Parquet table, for the estimates of `eval --share --items`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from lyncean.vocabulary.keys import split_repeat
from orchestrator.data.digest import digest_files
from orchestrator.errors import ConfigError
from orchestrator.extensions import Format
from orchestrator.run_folder.reader import Run

_MARK = b"lyncean.item_scores"
_MOST_RUNS = 10_000
_SCORE = "score: "
"""Prefix of the name of each run's column."""
FORMAT = Format(
    "items", "scores of runs by item, for `eval --share --items`; needs --output", f"{__name__}:write", "file"
)


class ItemScores(NamedTuple):
    """The table.

    Attributes:
        sha256: Hash of its file.
        data: Task -> sha256 of the data that the runs read.
        scores: Item key without repeat -> its score in each run, the mean over repeats; None where a run has none.
    """

    sha256: str
    runs: Sequence[str]
    data: Mapping[str, str]
    scores: Mapping[str, Sequence[float | None]]


def write(runs: Sequence[Run], path: Path) -> None:
    """Writes the scores of complete runs of the same data; without a score an item counts 0, as in accuracy.

    Columns are `task`, `key`, `mean` (over the runs) and `score: RUN`.

    Raises:
        ConfigError: If a run is not complete, two have one name, or two read other data of a task.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data: dict[str, str] = {}
    columns: dict[str, dict[str, float]] = {}
    for run in runs:
        if not run.tasks:
            raise ConfigError(f"{run.path} is not complete: run its command again first")
        if run.name in columns:
            raise ConfigError(f"two of the runs are called {run.name}: rename a folder")
        for task, source in (run.identity.get("data") or {}).items():
            sha256 = str(source.get("sha256"))
            if data.setdefault(task, sha256) != sha256:
                raise ConfigError(f"{run.name} read other data of {task} ({source.get('origin')}) than the runs before")
        columns[run.name] = _mean_scores(run)
    keys = list(dict.fromkeys(key for scores in columns.values() for key in scores))
    by_run = {name: [scores.get(key) for key in keys] for name, scores in columns.items()}
    known = [[score for score in row if score is not None] for row in zip(*by_run.values(), strict=True)]
    table = pa.table({
        "task": [key.partition("/")[0] for key in keys],
        "key": keys,
        "mean": pa.array([sum(row) / len(row) for row in known], pa.float64()),
        **{f"{_SCORE}{name}": pa.array(scores, pa.float64()) for name, scores in by_run.items()},
    })  # fmt: skip
    partial = path.with_name(f".{path.name}.partial")
    try:
        pq.write_table(table.replace_schema_metadata({_MARK: orjson.dumps(data)}), partial, compression="zstd")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _mean_scores(run: Run) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for item in run:
        if item.verdict:
            scores.setdefault(split_repeat(item.key)[0], []).append(item.score or 0.0)
    return {key: sum(repeats) / len(repeats) for key, repeats in scores.items()}


def read(path: Path) -> ItemScores:
    """Reads a table.

    Raises:
        ConfigError: If the file does not exist or is not such a table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        data = orjson.loads((table.schema.metadata or {})[_MARK])
        names = [name for name in table.column_names if name.startswith(_SCORE)]
        keys = table.column("key").to_pylist()
        columns = [table.column(name).cast(pa.float64()).to_pylist() for name in names]
        fits = isinstance(data, dict) and 0 < len(names) <= _MOST_RUNS
    except FileNotFoundError:
        raise ConfigError(f"--items {path}: there is no such file") from None
    except (OSError, KeyError, ValueError, pa.ArrowException):
        fits = False
    if not fits:
        raise ConfigError(
            f"--items {path} is not a table of item scores: orchestrator export RUN... --format items --output {path}"
        )
    rows = zip(*columns, strict=True)
    return ItemScores(
        digest_files([(path.name, path)]),
        [name.removeprefix(_SCORE) for name in names],
        {str(task): str(sha256) for task, sha256 in data.items()},
        dict(zip(map(str, keys), rows, strict=True)),
    )
