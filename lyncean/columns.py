"""Columns of millions of items in temporary files, so that a process holds those alone that it computes with."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

from lyncean.arrays import NDArray, np
from lyncean.errors import UserError

_KEPT_BYTES = 1 << 19


class SpillError(UserError):
    """The folder of temporary files cannot be written.

    Args:
        folder: The folder.
        error: What the system said.
    """

    def __init__(self, folder: str, error: OSError) -> None:
        # NumPy's own errors have no reason of the system's.
        super().__init__(
            f"{folder}: {error.strerror or error}: columns of large data lie in temporary files: make room there, or "
            "name another folder in $TMPDIR"
        )


class Column:
    """A column that grows at its end; beyond half a megabyte it lies in a file without a name.

    Args:
        code: Code of a value, as of `array.array`.
        kind: What the column is read as, where that is not the code's own type.
    """

    def __init__(self, code: str, kind: Any = None) -> None:
        self._latest: array[Any] = array(code)
        self._kind = np.dtype(kind or code)
        self._most = _KEPT_BYTES // self._latest.itemsize
        self._file: IO[bytes] | None = None
        self._bytes = 0
        self.append = self._latest.append

    def __len__(self) -> int:
        return self.nbytes // self._kind.itemsize

    @property
    def nbytes(self) -> int:
        """How many bytes its values take."""
        return self._bytes + len(self._latest) * self._latest.itemsize

    def extend(self, values: Iterable[Any]) -> None:
        """Adds values."""
        self._latest.extend(values)
        self.settle()

    def add(self, data: bytes) -> None:
        """Adds values as they lie in memory."""
        self._latest.frombytes(data)
        self.settle()

    def parts(self) -> Iterator[bytes]:
        """Yields the column as it lies in memory, some of it at a time; `add` takes it back."""
        if self._file is not None:
            self._write()
            self._file.seek(0)
            yield from iter(partial(self._file.read, _KEPT_BYTES), b"")
        yield self._latest.tobytes()

    def settle(self) -> None:
        """Writes what was appended once it is much. To be called now and then between `append`."""
        if len(self._latest) >= self._most:
            self._write()

    def _write(self) -> None:
        with _spilling():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the column
            # Buffered: one call of the system may write a part, and the rest would be lost without a word.
            self._file.write(self._latest)
            self._file.flush()
        self._bytes += len(self._latest) * self._latest.itemsize
        del self._latest[:]

    def read(self) -> NDArray[Any]:
        """Returns a copy of the column, in memory for as long as the caller has it, who may change it."""
        if self._file is None:
            return np.frombuffer(bytearray(self._latest), self._kind)
        self._write()
        self._file.seek(0)
        return np.fromfile(self._file, self._kind)


def mapped(values: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of half a megabyte or more from a file, of which only what is looked at is in memory."""
    if values.nbytes < _KEPT_BYTES:
        return values
    with _spilling(), tempfile.TemporaryFile() as file:
        values.tofile(file)
        found: NDArray[Any] = np.memmap(file, values.dtype, "r", shape=values.shape)
    return found


@contextmanager
def _spilling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpillError(tempfile.gettempdir(), error) from error
