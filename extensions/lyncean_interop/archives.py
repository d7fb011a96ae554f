"""ZIP archives of other tools, unpacked within limits before the tools' own libraries read them."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.data import DataError

MAX_MEMBERS = 100_000
"""Maximum number of members of an archive."""
_SPARE_BYTES, _RATIO, _MOST_BYTES = 64 << 20, 16, 4 << 30
_VALUE_BYTES = 32
"""Bytes of room per JSON value, since a value takes up to a hundred bytes in memory."""
_VALUE_SIGNS = (b",", b"[", b"{")
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93}
"""Supported compression methods; the last is Zstandard, which Inspect's library adds to `zipfile`."""
_PIECE = 4096
"""Bytes read at a time: the only bound on the unpacked size of a piece of Zstandard."""


def room(path: Path) -> int:
    """Returns the bytes that a file may unpack to: 64 MiB and 16 times its size, 4 GiB at most.

    Logs and tables compress to a fifth or a tenth of their size.
    """
    return min(_SPARE_BYTES + _RATIO * path.stat().st_size, _MOST_BYTES)


@contextlib.contextmanager
def unpacked(path: Path, edit: Callable[[str, bytes], bytes] | None = None) -> Iterator[Path]:
    """Unpacks an archive and yields an archive of the same name with uncompressed members.

    The stated sizes are added up before anything is unpacked, and no member is unpacked beyond its stated size. The
    library reads the copy, so that it reads exactly the checked content.

    Args:
        path: The archive.
        edit: Edits JSON members: returns the content to keep of a name and content. Their values are counted, too.

    Raises:
        DataError: It unpacks to more than `room`, or has too many members or values.
        Exception: It is damaged, or not an archive.
    """
    with TemporaryDirectory(prefix="lyncean-unpacked-") as folder, zipfile.ZipFile(path) as packed:
        members = packed.infolist()
        _check(path, members)
        values = room(path) // _VALUE_BYTES
        with zipfile.ZipFile(Path(folder) / path.name, "w") as plain:
            for name in dict.fromkeys(member.filename for member in members):  # of duplicates the last one counts
                content = _content(packed, name)
                if edit:
                    values -= sum(map(content.count, _VALUE_SIGNS))
                    if values < 0:
                        raise DataError(f"{path} holds more values of JSON than a file of its size may")
                    content = edit(name, content)
                plain.writestr(name, content)
        yield Path(folder) / path.name


def _check(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{path} has {len(members):,} members, the limit is {MAX_MEMBERS:,}")
    stated, most = sum(member.file_size for member in members), room(path)
    if stated > most:
        raise DataError(f"{path} unpacks to {stated:,} bytes, the limit for a file of its size is {most:,}")
    for member in members:
        if member.compress_type not in _METHODS:
            raise DataError(f"{path} has a member packed by method {member.compress_type}: write it with Deflate")


def _content(packed: zipfile.ZipFile, name: str) -> bytes:
    content = bytearray()
    with packed.open(name) as source:
        while piece := source.read(_PIECE):
            content += piece
    return bytes(content)
