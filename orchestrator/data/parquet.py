"""Rows of parquet files: columns batch by batch, images one small batch at a time on demand."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.data.digest import digest_files
from orchestrator.data.images import image_bytes
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table

_FIELD_ROWS = 256
_IMAGE_BYTES = 1 << 20
_KEPT_BATCHES = 4
_KEPT_CURSORS = 4
_MANY_BYTES = 32 << 20
"""Bytes of the batches at hand, one of each column, where rows have images in more columns than cursors are kept."""


def open_parquet(data: Path, table: Table) -> RowSource:
    """Opens a parquet file, or a folder of them (those of the split, in the order of their names)."""
    files = [data] if data.is_file() else split_files(data, table.split)
    counts: list[int] = []
    for file in files:
        parquet = _opened(file)
        table.check_columns(str(file), parquet.schema_arrow.names)
        counts.append(parquet.metadata.num_rows)
    names = [(data.name if data.is_file() else str(file.relative_to(data))) for file in files]

    def iterate(first: int = 0) -> Iterator[Row]:
        images = _Images(files)
        before = 0
        for index, (file, count) in enumerate(zip(files, counts, strict=True)):
            start, name = max(0, first - before), str(file)
            for position, values in enumerate(_fields(file, start) if start < count else (), start):
                fields = table.read(name, before + position + 1, values)
                yield Row(fields, partial(_load, table, fields, file, images, index, position))
            before += count

    return RowSource(
        origin=data.name,
        digest=digest_files(zip(names, files, strict=True)),
        count=sum(counts),
        iterate=iterate,
        iterate_from=iterate,
        files=files,
    )


def split_files(folder: Path, split: str) -> list[Path]:
    """Returns the parquet files of a split: those with the split's name as a word in their path, else all."""
    files = sorted(folder.rglob("*.parquet"))
    word = re.compile(rf"(^|[^a-z0-9]){re.escape(split)}([^a-z0-9]|$)", re.IGNORECASE)
    return [file for file in files if word.search(str(file.relative_to(folder)))] or files


_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


def _unreadable(file: Path, error: Exception) -> DataError:
    why = " ".join(str(error).split())
    return DataError(f"{file} cannot be read as parquet: {why}; fetch or write the file again")


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        raise _unreadable(file, error) from error


def _opened(file: Path) -> pq.ParquetFile:
    with _readable(file):
        stat = file.stat()
        footer = _footer(file, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
        # The buffer keeps pyarrow from reading a row group's whole column chunk at once.
        return pq.ParquetFile(file, metadata=footer, buffer_size=1 << 20, pre_buffer=False)


@lru_cache(maxsize=2)
def _footer(file: Path, _: tuple[int, ...]) -> pq.FileMetaData:
    """Returns what a file says of its row groups: 7 KB each in memory, of which a large file has thousands."""
    return pq.read_metadata(file)


def _fields(file: Path, first: int) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file from one on, counted from 0, without those columns that hold images."""
    parquet = _opened(file)
    names = [one.name for one in parquet.schema_arrow if not _holds_bytes(one.type)]
    with _readable(file):
        group, groups = 0, parquet.num_row_groups
        while group < groups and first >= (rows := parquet.metadata.row_group(group).num_rows):
            group, first = group + 1, first - rows
        batches = parquet.iter_batches(batch_size=_FIELD_ROWS, row_groups=list(range(group, groups)), columns=names)
        for table in batches:
            batch = table.slice(first)
            first = max(0, first - table.num_rows)
            present = batch.schema.names
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield dict(zip(present, cells, strict=True))


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_bytes(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds_bytes(kind.value_type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _load(
    table: Table, fields: dict[str, Any], file: Path, images: _Images, index: int, position: int, column: str
) -> bytes | None:
    """Returns the bytes of a row's image."""
    if images.has(index, column):
        return image_bytes(images.cell(index, column, position), file.parent)
    return image_bytes(table.image_path(fields), file.parent) if table.image_path else None


class _Images:
    """Cells of image columns, cheap when asked for in about the order of the rows.

    Holds a few cursors, each over one column of one row group, and of each the last few
    batches; a batch is as many rows as make about 1 MiB. Asking further back starts the row
    group again. Rows with images in many columns have a cursor for each, which lets go of its
    pages and starts again at the next batch. Safe to use from several threads.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._file = lru_cache(maxsize=2)(lambda index: _opened(files[index]))
        self._files = files
        self._cursors: OrderedDict[tuple[int, str, int], _Cursor] = OrderedDict()
        self._used_columns: set[str] = set()
        self._columns: dict[int, tuple[set[str], list[int]]] = {}
        self._lock = threading.Lock()

    def has(self, index: int, column: str) -> bool:
        """Returns True if a file has this column."""
        if known := self._columns.get(index):
            return column in known[0]
        with self._lock:
            return column in self._describe(index)[0]

    def cell(self, index: int, column: str, position: int) -> Any:
        """Returns the cell of the row at this position of the file."""
        with self._lock:
            starts = self._describe(index)[1]
            group = bisect_right(starts, position) - 1
            key = (index, column, group)
            offset = position - starts[group]
            cursor = self._cursors.pop(key, None)
            try:
                self._used_columns.add(column)
                if cursor is None or not cursor.reaches(offset):
                    many = len(self._used_columns) if len(self._used_columns) > _KEPT_CURSORS else 0
                    cursor = _Cursor(self._file(index), column, group, many, cursor)
                self._cursors[key] = cursor
                while len(self._cursors) > max(_KEPT_CURSORS, 2 * len(self._used_columns)):  # those of two row groups
                    self._cursors.popitem(last=False)
                return cursor.cell(offset)
            except _UNREADABLE as error:
                raise _unreadable(self._files[index], error) from error

    def _describe(self, index: int) -> tuple[set[str], list[int]]:
        """Returns the columns of a file, and the first row of each row group."""
        if index not in self._columns:
            parquet = self._file(index)
            sizes = (parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups))
            self._columns[index] = set(parquet.schema_arrow.names), list(accumulate(sizes, initial=0))[:-1]
        return self._columns[index]


class _Cursor:
    """One column of one row group, read forwards.

    Args:
        parquet: The file.
        column: The column.
        group: The row group.
        many: Number of columns that are read side by side; 0 for so few that each keeps its pages.
        before: The cursor that it replaces, whose last batch stays at hand.
    """

    def __init__(
        self, parquet: pq.ParquetFile, column: str, group: int, many: int = 0, before: _Cursor | None = None
    ) -> None:
        meta = parquet.metadata.row_group(group)
        size = sum(
            meta.column(i).total_uncompressed_size
            for i in range(meta.num_columns)
            if meta.column(i).path_in_schema.split(".")[0] == column
        )
        most = _MANY_BYTES // many if many else _IMAGE_BYTES
        rows = max(1, min(_FIELD_ROWS, most * meta.num_rows // max(1, size)))
        self._batches: Iterator[pa.RecordBatch] | None = parquet.iter_batches(
            batch_size=rows, row_groups=[group], columns=[column], use_threads=False
        )
        self._many = bool(many)
        self._kept: deque[tuple[int, pa.Array | list[Any]]] = deque(maxlen=2 if many else _KEPT_BATCHES)
        if many and before and before._kept:
            self._kept.append(before._kept[-1])
        self._end = 0
        self._rows = meta.num_rows

    def reaches(self, offset: int) -> bool:
        """Returns whether the row at an offset is at hand, or is read without starting again."""
        if self._batches is not None and offset >= self._end:
            return True
        return self._at_hand(offset) is not None

    def _at_hand(self, offset: int) -> tuple[int, pa.Array | list[Any]] | None:
        return next((kept for kept in reversed(self._kept) if kept[0] <= offset < kept[0] + len(kept[1])), None)

    def cell(self, offset: int) -> Any:
        """Returns the cell at an offset into the row group that it reaches."""
        while self._batches is not None and offset >= self._end:
            cells = next(self._batches).column(0)
            start, self._end = self._end, self._end + len(cells)
            reached = offset < self._end
            if reached or not self._many:
                # At once: a cell by itself is copied twice. Batches that are passed over are left as they are.
                self._kept.append((start, cells.to_pylist() if reached else cells))
            if self._end == self._rows or (reached and self._many):
                self._batches = None  # lets go of the pages: of a row group that is one page, all of it
        kept = self._at_hand(offset)
        assert kept is not None
        start, cells = kept
        cell = cells[offset - start]
        return cell.as_py() if isinstance(cell, pa.Scalar) else cell
