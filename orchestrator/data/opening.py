"""Opens a benchmark's data in any supported form."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from lyncean.arrays import np
from lyncean.columns import Column
from orchestrator.data.digest import kept
from orchestrator.data.hub import HUB_ID
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table

FORMS = (
    "a hub id (owner/name or owner/name@revision), a folder written by datasets' save_to_disk, a parquet file or "
    "a folder of them, or a JSONL, JSON or CSV table whose image column holds paths relative to the table's folder"
)
"""Forms that every benchmark accepts, for messages."""

_READ = 1 << 12
"""Hashes of ids that are taken at a time."""

_SORTED = 1 << 21
"""Hashes of ids that are sorted at a time, about so many."""


def open_rows(data: str | Path | None, table: Table, *, image_root: Path | None = None) -> RowSource:
    """Opens data in one of `FORMS` for a benchmark, by default the table's hub id; images are read when loaded.

    Paths of images in a text table are relative to `image_root`, by default the table's own folder.

    Raises:
        DataError: It is not there, cannot be read, or lacks columns.
    """
    from orchestrator.data import arrow, parquet, textual, vlmevalkit

    path = Path(data or table.hub).expanduser()
    if data is None or not path.exists():
        if not HUB_ID.fullmatch(str(data or table.hub)) or path.suffix in (".parquet", *textual.SUFFIXES):
            raise DataError(f"no data at {path}; --data takes {FORMS}")
        try:
            return arrow.open_hub(str(data or table.hub), table)
        except DataError as error:
            if data is None:
                raise
            raise DataError(f"no file or folder {path} is here, and {error}") from error
    if path.is_dir():
        if arrow.is_saved(path):
            return arrow.open_saved(path, table)
        if next(path.rglob("*.parquet"), None):
            return parquet.open_parquet(path, table)
        return textual.open_text(_table_file(path), table, root=image_root)
    if path.suffix == ".parquet":
        return parquet.open_parquet(path, table)
    if list(table.images) == ["image"] and vlmevalkit.is_vlmevalkit(path):
        return vlmevalkit.open_vlmevalkit(path, table)
    if path.suffix in textual.SUFFIXES:
        return textual.open_text(path, table, root=image_root)
    raise DataError(f"{path} is of no known form; --data takes {FORMS}")


def only(source: RowSource, keep: Callable[[Row], bool]) -> RowSource:
    """Returns the rows of a source that `keep` holds for, counted."""
    rows = partial(filter, keep)
    return replace(source, count=sum(1 for _ in rows(source)), iterate=lambda: rows(source))


def check_unique(source: RowSource, task: str, identifier: Callable[[Row], str]) -> RowSource:
    """Returns the source; raises DataError where two rows would get the same key.

    Of large files that an earlier command found to be right, and that have not changed since, no row is read.

    Args:
        source: The rows.
        task: The task that they are read for.
        identifier: Returns what makes a row's key; raises where the row cannot be used.
    """

    def find() -> str:
        repeated = _repeated(hash(identifier(row)) for row in source)
        seen: set[str] = set()
        for row in source if repeated else ():
            name = identifier(row)
            if name in seen:
                raise DataError(f"{source.origin}: id {name} stands twice; ids must be unique, they name the samples")
            if hash(name) in repeated:
                seen.add(name)
        return hashlib.sha256(source.digest.encode()).hexdigest()  # only that something is kept tells

    kept("unique", source.files, f"{source.digest}\n{task}", find)
    return source


def _repeated(hashes: Iterator[int]) -> set[int]:
    """Returns the 64-bit numbers that come more than once; some of them are in memory at a time."""
    column, repeated = Column("q"), set[int]()
    while some := list(itertools.islice(hashes, _READ)):
        column.extend(some)
    shares = len(column) // _SORTED + 1
    for share in range(shares):
        parts = (np.frombuffer(part, np.int64) for part in column.parts())
        numbers = np.concatenate([part[part % shares == share] for part in parts])
        numbers.sort()
        repeated.update(numbers[1:][numbers[1:] == numbers[:-1]].tolist())
    return repeated


def _table_file(folder: Path) -> Path:
    """Returns the one table of a folder with images."""
    from orchestrator.data.textual import SUFFIXES

    files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    named = [file for file in files if file.stem == "metadata"] or files
    if not files:
        raise DataError(f"{folder} holds no data; --data takes {FORMS}")
    if len(named) != 1:
        names = ", ".join(file.name for file in files)
        raise DataError(f"{folder} should hold one table (JSONL, JSON or CSV) and has {names}; name the file itself")
    return named[0]
