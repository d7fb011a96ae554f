"""Rows of data, whose images are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lyncean.errors import UserError


class DataError(UserError):
    """Data that cannot be used: missing, wrong columns, unreadable. A user's mistake: exit 2.

    The message names the file or id, what is wrong with it and what to do.
    """


class OutsideError(DataError):
    """A path of the data that leads out of the data's folder."""


class MissingColumnError(KeyError):
    """A row without a column that is asked for."""

    def __str__(self) -> str:
        """Returns the message as it was given; a KeyError's own is its repr."""
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a benchmark's data.

    Attributes:
        fields: Every column but the images.
        load: Reads an image column: the encoded file's own bytes, None if the row has none.
            Raises DataError when it cannot be read.
    """

    fields: Mapping[str, Any]
    load: Callable[[str], bytes | None] = field(repr=False)

    def __getitem__(self, column: str) -> Any:
        """Returns a column's value; raises MissingColumnError where the row has none."""
        try:
            return self.fields[column]
        except KeyError:
            raise MissingColumnError(f"it has no column {column!r}; it has {', '.join(self.fields)}") from None

    def image(self, column: str = "image") -> bytes | None:
        """Returns an image column's bytes, None if the row has none there."""
        return self.load(column)


@dataclass(frozen=True, slots=True)
class RowSource:
    """A lazily read table.

    Attributes:
        origin: Where it comes from, for the manifest: a path's name, a hub id and revision.
        digest: sha256 that changes when the content does.
        count: Number of rows, None where it is not known beforehand.
        iterate: Starts reading from the first row. Does not read an image by itself.
        iterate_from: Starts reading at a row, counted from 0, without reading earlier ones; None if that is not faster.
        files: The files that hold the rows, where these are read from files that are quicker to open than to read.
    """

    origin: str
    digest: str
    count: int | None
    iterate: Callable[[], Iterator[Row]]
    iterate_from: Callable[[int], Iterator[Row]] | None = None
    files: Sequence[Path] = ()

    def __iter__(self) -> Iterator[Row]:
        return self.iterate()
