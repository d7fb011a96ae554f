"""Columns of millions of items, kept in temporary files so that only those in use take memory."""

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
_SHARES = 32
"""Largest number of passes over a column in the search for repeated values."""


class SpillError(UserError):
    """The folder of temporary files cannot be written.

    Args:
        folder: The folder.
        error: The system's error.
    """

    def __init__(self, folder: str, error: OSError) -> None:
        # NumPy's own errors have no strerror.
        super().__init__(
            f"{folder}: {error.strerror or error}: columns of large data lie in temporary files: make room there, or "
            "name another folder in $TMPDIR"
        )


class Column:
    """A growing column; beyond half a megabyte it lies in an unnamed file.

    Args:
        code: Type code of a value, as in `array.array`.
        kind: Type in which `read` returns the column; default: the code's.
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
        """Bytes of its values."""
        return self._bytes + len(self._latest) * self._latest.itemsize

    def extend(self, values: Iterable[Any]) -> None:
        """Adds values."""
        self._latest.extend(values)
        self.settle()

    def add(self, data: bytes) -> None:
        """Adds values from their bytes in memory."""
        self._latest.frombytes(data)
        self.settle()

    def parts(self) -> Iterator[bytes]:
        """Yields the bytes of the column in pieces, which `add` accepts."""
        if self._file is not None:
            self._write()
            self._file.seek(0)
            yield from iter(partial(self._file.read, _KEPT_BYTES), b"")
        yield self._latest.tobytes()

    def settle(self) -> None:
        """Writes appended values to the file once there are many. Call it now and then between `append`s."""
        if len(self._latest) >= self._most:
            self._write()

    def repeats(self) -> bool:
        """Returns whether a number stands in the column twice; holds half a megabyte, or a 32nd of it, at once."""
        shares = min(_SHARES, 1 + self.nbytes // _KEPT_BYTES)
        for share in range(shares):
            parts = (np.frombuffer(part, self._kind) for part in self.parts())
            values = np.concatenate([part[part % shares == share] for part in parts])
            values.sort()
            if (values[1:] == values[:-1]).any():
                return True
        return False

    def _write(self) -> None:
        with _spilling():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the column
            # Buffered: a single system call may write a part only, and the rest would be lost silently.
            self._file.write(self._latest)
            self._file.flush()
        self._bytes += len(self._latest) * self._latest.itemsize
        del self._latest[:]

    def read(self) -> NDArray[Any]:
        """Returns a copy of the column in memory, which the caller may change."""
        if self._file is None:
            return np.frombuffer(bytearray(self._latest), self._kind)
        self._write()
        self._file.seek(0)
        return np.fromfile(self._file, self._kind)


def mapped(values: NDArray[Any]) -> NDArray[Any]:
    """Maps an array of half a megabyte or more to a file, so that only the pages in use are in memory."""
    if values.nbytes < _KEPT_BYTES:
        return values
    with _spilling(), tempfile.TemporaryFile() as file:
        values.tofile(file)
        array: NDArray[Any] = np.memmap(file, values.dtype, "r", shape=values.shape)
    return array


@contextmanager
def _spilling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpillError(tempfile.gettempdir(), error) from error
