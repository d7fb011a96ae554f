"""VLMEvalKit's TSV tables: images as base64 in the column `image`, or as files that `image_path` names.

The format is that of VLMEvalKit's `docs/en/Development.md` and `vlmeval/dataset/image_base.py`: a cell of `image` of at
most 64 characters is the index of another row, whose images it shares, and several images are a list.
"""

from __future__ import annotations

import ast
import base64
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.data import DataError, Row, RowSource, Table, digest_files, image_bytes

_IMAGES = ("image", "image_path")
_LONGEST_INDEX = 64
_LONGEST_CELL = 128 << 20
_LONGEST_NAMES = 64 << 10


def is_vlmevalkit(path: Path) -> bool:
    """Returns True if the header of a file is that of such a table."""
    if path.suffix != ".tsv":
        return False
    header = next(_records(path), (0, []))[1]
    return "index" in header and any(name in header for name in _IMAGES)


def open_vlmevalkit(path: Path, table: Table) -> RowSource:
    """Opens a table; rows without an image are left out, as VLMEvalKit does.

    `Row.image("image")` is the only image of a row, `Row.image("image:0")` the first of several; None past the last.
    Images are read from the file when they are asked for.

    Raises:
        DataError: It cannot be read, or lacks columns.
    """
    places: dict[str, int] = {}
    header: list[str] = []
    for begin, cells in _records(path):
        if not header:
            header = cells
            table.check_columns(str(path), [*header, *table.images])
            _check_header(path, header)
            continue
        index = cells[header.index("index")]
        if index in places:
            raise DataError(f"{path}: index {index} stands twice; it names the row")
        places[index] = begin
    if not places:
        raise DataError(f"{path} has no rows")
    file = _File(path, header, places)
    rows = sum(1 for _ in file.rows(table))
    return RowSource(path.name, digest_files([(path.name, path), *file.images()]), rows, lambda: file.rows(table))


@dataclass(frozen=True, slots=True)
class _File:
    """A table whose header and places are known.

    Attributes:
        path: The file.
        header: Its columns.
        places: Where the row of each index begins, in bytes.
    """

    path: Path
    header: list[str]
    places: dict[str, int]

    def rows(self, table: Table) -> Iterator[Row]:
        for number, (begin, cells) in enumerate(_records(self.path)):
            values = dict(zip(self.header, cells, strict=True))
            if number == 0 or not (values.get("image") or values.get("image_path")):
                continue
            fields = table.read(str(self.path), number, {k: v for k, v in values.items() if k != "image"})

            def load(name: str, begin: int = begin) -> bytes | None:
                return self.load(begin, name)

            yield Row(fields, load)

    def images(self) -> list[tuple[str, Path]]:
        """Returns the image files that the table names and that are there."""
        tables: dict[str, Path] = {}
        for begin in self.places.values() if "image_path" in self.header else ():
            values = self.record(begin)
            for name in () if values.get("image") else self._names(values):
                if (file := self.path.parent / name).is_file():
                    tables[name] = file
        return list(tables.items())

    def record(self, begin: int) -> dict[str, str]:
        return dict(zip(self.header, next(_records(self.path, begin))[1], strict=True))

    def load(self, begin: int, name: str) -> bytes | None:
        """Returns an image of the row that begins at a place."""
        values = self.record(begin)
        where = f"{self.path}, index {values['index']}"
        held: list[Any] = self._cells(values, where) if values.get("image") else self._names(values)
        _, several, number = name.partition(":")
        if not several and len(held) != 1:
            raise DataError(f"{where}: it has {len(held)} images, a task file takes one: run the task vlmevalkit:NAME")
        index = int(number or 0)
        if index >= len(held):
            return None
        if not values.get("image"):
            return image_bytes(held[index], self.path.parent)
        try:
            return base64.b64decode(held[index], validate=True)
        except ValueError as error:
            raise DataError(f"{where}: image {index + 1} is not base64: {error}") from None

    def _cells(self, values: dict[str, str], where: str) -> list[str]:
        """Returns the images of a row, of another row where its cell is an index."""
        cell = values["image"]
        if len(cell) <= _LONGEST_INDEX:
            begin = self.places.get(cell)
            other = "" if begin is None else self.record(begin)["image"]
            if len(other) <= _LONGEST_INDEX:
                raise DataError(f"{where}: its image cell {cell!r} is neither an image nor the index of a row with one")
            cell = other
        pieces = cell[1:-1].split(",") if cell.startswith("[") and cell.endswith("]") else [cell]
        return [piece.strip(" '\"\n").rpartition(";base64,")[2] for piece in pieces]

    def _names(self, values: dict[str, str]) -> list[str]:
        """Returns the paths of a row's images: one, or a list as Python writes it."""
        cell = values["image_path"]
        if not (cell.startswith("[") and cell.endswith("]")):
            return [cell] if cell else []
        try:
            names = ast.literal_eval(cell) if len(cell) <= _LONGEST_NAMES else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{self.path}, index {values['index']}: image_path is not a list of paths: {cell[:60]}")
        return names


def _check_header(path: Path, header: list[str]) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path}: column {', '.join(twice)} stands twice")
    if not any(name in header for name in _IMAGES):
        raise DataError(f"{path} has no column image or image_path: it has {', '.join(header)}")


def _records(path: Path, begin: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yields where each record begins, in bytes, and its cells; the header first."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    try:
        with path.open("rb") as file:
            file.seek(begin)
            lines = iter(lambda: file.readline(_LONGEST_CELL + 1).decode("utf-8" if begin else "utf-8-sig"), "")
            width = 0
            for cells in csv.reader(lines, delimiter="\t", strict=True):
                if cells:
                    width = width or len(cells)
                    if len(cells) != width:
                        raise DataError(
                            f"{path}, the row at byte {begin:,}, has {len(cells)} cells, the header has {width}"
                        )
                    yield begin, cells
                begin = file.tell()
    except csv.Error as error:
        raise DataError(f"{path}, the row at byte {begin:,}, is not tab-separated text: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, the row at byte {begin:,}, is not UTF-8: {error.reason}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
