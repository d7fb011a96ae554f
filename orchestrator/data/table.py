"""The columns that a benchmark needs, and the checks of its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from orchestrator.data.rows import DataError

Kind = type | tuple[type, ...]
"""int, str, float, bool, list, or object for anything; a tuple with NoneType where null is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A benchmark's table: its place by default, and its columns.

    Attributes:
        hub: Hub id that is read without `--data`, "owner/name" or "owner/name@revision".
        split: Split of a hub id, a saved folder or a folder of parquet files.
        columns: Columns that must be there besides images, each with its kind.
        images: Image columns.
        config: Configuration of the hub id; None for its default.
        files: Files of the hub id that hold the split, where it does not say so itself.
        or_split: Split to take where `split` is not there.
        image_path: For tables without an image column: the image's path from the row's other
            columns, relative to the table's folder.
    """

    hub: str
    split: str
    columns: Mapping[str, Kind]
    images: Sequence[str] = ("image",)
    config: str | None = None
    files: Sequence[str] = ()
    or_split: str = ""
    image_path: Callable[[Mapping[str, Any]], str] | None = field(default=None, repr=False)

    def check_columns(self, where: str, present: Sequence[str]) -> None:
        """Raises DataError unless every column is present; images may be found by path."""
        wanted = [*self.columns, *(() if self.image_path else self.images)]
        missing = [name for name in wanted if name not in present]
        if missing:
            raise DataError(
                f"{where} has no column {', '.join(missing)}: it has {', '.join(present) or 'none'}; "
                f"this benchmark needs {', '.join(wanted)}"
            )

    def read(self, where: str, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a row's fields with the required columns in their kind; text formats give numbers and lists as text.

        `where` (the file or id) and `number` (the row's, from 1) are for messages.

        Raises:
            DataError: A column is missing in this row or its value is of another kind.
        """
        fields = dict(values)
        for name in self.images:
            fields.pop(name, None)
        for name, kind in self.columns.items():
            try:
                value = fields[name]
            except KeyError:
                raise DataError(f"{where}, row {number}, has no column {name}; every row needs one") from None
            if kind is type(value) or kind is object:  # nearly every cell of millions of rows
                continue
            kinds = kind if isinstance(kind, tuple) else (kind,)
            try:
                fields[name] = _coerce(value, kinds)
            except ValueError:
                names = " or ".join("null" if one is NoneType else one.__name__ for one in kinds)
                raise DataError(
                    f"{where}, row {number}, column {name}: {_short(fields[name])} is not {names}"
                ) from None
        return fields


def _coerce(value: Any, kinds: tuple[type, ...]) -> Any:
    """Returns the value in the first kind it fits, raises ValueError where it fits none."""
    if object in kinds or (type(value) in kinds):
        return value
    if NoneType in kinds and value in ("", None):
        return None
    if value is None:
        raise ValueError
    for kind in kinds:
        if kind is int and isinstance(value, str | float) and float(value).is_integer():
            return int(value)
        if kind is float and isinstance(value, str | int) and not isinstance(value, bool):
            return float(value)
        if kind is str and isinstance(value, int | float):
            return str(value)
        if kind is list and isinstance(value, str):
            try:
                loaded = json.loads(value)
            except RecursionError as error:
                raise ValueError from error
            if isinstance(loaded, list):
                return loaded
    raise ValueError


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
