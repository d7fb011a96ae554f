"""Rows of JSONL, JSON and CSV files whose images lie in files beside them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from os.path import isfile
from pathlib import Path
from typing import Any

import orjson

from orchestrator.data.digest import digest_files
from orchestrator.data.images import image_bytes
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""Files read here."""

_LINE_BYTES = 64 << 20
"""No row can be sent that is larger."""

_FILE_COLUMNS = ("file_name", "file", "path")
"""Names under which image folders give a row's image path."""


def open_text(file: Path, table: Table, *, root: Path | None = None) -> RowSource:
    """Opens a JSONL, JSON (one array of objects) or CSV file.

    An image column holds a path relative to `root`, the table's folder by default; without such
    a column the first of file_name, file, path does, or the benchmark's own layout says it.
    The digest covers the table and every image file it names that is there.
    """
    root = root or file.parent
    first = next(_records(file), None)
    if first is None:
        raise DataError(f"{file} has no rows")
    names = list(first)
    column = next((name for name in (*table.images, *_FILE_COLUMNS) if name in names), None)
    if column is not None and len(table.images) == 1 and table.images[0] not in names:
        names.append(table.images[0])
    table.check_columns(str(file), names)

    def cell(values: dict[str, Any], fields: dict[str, Any], name: str) -> Any:
        if name in values:
            return values[name]
        if table.image_path:
            return table.image_path(fields)
        return values.get(column) if column else None

    def iterate() -> Iterator[Row]:
        for number, values in enumerate(_records(file), 1):
            fields = table.read(str(file), number, values)

            def load(name: str, values: dict[str, Any] = values, fields: dict[str, Any] = fields) -> bytes | None:
                return image_bytes(cell(values, fields, name), root)

            yield Row(fields, load)

    count = 0
    images: dict[str, Path] = {}
    for number, values in enumerate(_records(file), 1):
        count += 1
        fields = table.read(str(file), number, values)
        for name in table.images:
            value = cell(values, fields, name)
            for path in value if isinstance(value, list) else [value]:
                # Path.is_file raises OSError where a name is too long.
                if isinstance(path, str) and path and isfile(root / path):  # noqa: PTH113
                    images[path] = root / path
    return RowSource(
        origin=file.name, digest=digest_files([(file.name, file), *images.items()]), count=count, iterate=iterate
    )


def _records(file: Path) -> Iterator[dict[str, Any]]:
    try:
        if file.suffix in (".csv", ".tsv"):
            yield from _csv(file)
        elif file.suffix == ".json":
            yield from _json(file)
        else:
            yield from _jsonl(file)
    except csv.Error as error:
        raise DataError(f"{file} is not valid CSV: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8: {error}; save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from error


def _csv(file: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(max(csv.field_size_limit(), _LINE_BYTES))
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t" if file.suffix == ".tsv" else ",")
        _check_header(file, list(reader.fieldnames or ()))
        for number, values in enumerate(reader, 1):
            if None in values or None in values.values():
                raise DataError(
                    f"{file}, row {number}, does not have the {len(reader.fieldnames or ())} cells of the header"
                )
            yield values


def _check_header(file: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file}: column {', '.join(map(repr, twice))} stands twice: rename one")
    mark = next((mark for mark in ";\t" if len(names) == 1 and mark in names[0]), None)
    if mark is not None:
        kind = "tabs: save it with commas, or name it .tsv" if mark == "\t" else "semicolons: save it with commas"
        raise DataError(f"{file}: the cells seem to be separated by {kind}")


def _json(file: Path) -> Iterator[dict[str, Any]]:
    text = file.read_text(encoding="utf-8-sig")
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON: {error}") from error
    if not isinstance(loaded, list):
        raise DataError(f"{file} is not a JSON array of objects")
    for number, values in enumerate(loaded, 1):
        yield _object(file, number, values)


def _jsonl(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(_LINE_BYTES + 1), b""), 1):
            if len(line) > _LINE_BYTES:
                raise DataError(f"{file}, line {number}, is longer than {_LINE_BYTES >> 20} MiB: put images in files")
            if not line.strip():
                continue
            try:
                values = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise DataError(f"{file}, line {number}, is not JSON: {error}") from error
            yield _object(file, number, values)


def _object(file: Path, number: int, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise DataError(f"{file}, row {number}, is not an object")
    return values
