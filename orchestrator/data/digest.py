"""Digests of data files for a run's manifest; what is known of large files is kept from one command to the next."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lyncean.plugins.folders import cache_folder

FULL_BYTES = 2 << 30
"""Up to so many bytes altogether every byte is hashed; beyond, each file is sampled."""

_EDGE = 1 << 20

WORTH_BYTES = 16 << 20
"""Smaller files are hashed each time: in a hundredth of a second."""

SETTLED_SECONDS = 5.0
"""How long a file must have been left alone: clocks of file systems tick as slowly as every two seconds."""


def digest_files(files: Iterable[tuple[str, Path]]) -> str:
    """Returns a digest of files that changes when their content does.

    One file: the sha256 of its content, as `sha256sum` prints it. Several: the sha256 of the
    lines "sha256  name" in the order of their names. Beyond `FULL_BYTES` altogether, a file's
    sha256 is taken over its size and its first and last MiB (where a parquet file keeps the
    sizes and places of all its pages), and the result starts with "sampled:".

    Args:
        files: Name under which the file counts, and its path.
    """
    named = sorted(files)
    sampled = sum(path.stat().st_size for _, path in named) > FULL_BYTES
    digests = [(_sampled(path) if sampled else remembered(path, sha256), name) for name, path in named]
    if len(digests) == 1:
        digest = digests[0][0]
    else:
        digest = hashlib.sha256("".join(f"{one}  {name}\n" for one, name in digests).encode()).hexdigest()
    return f"sampled:{digest}" if sampled else digest


def sha256(path: Path) -> str:
    """Returns the sha256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sampled(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_EDGE))
        file.seek(max(0, size - _EDGE))
        digest.update(file.read(_EDGE))
    return digest.hexdigest()


def remembered(path: Path, digest: Callable[[Path], str]) -> str:
    """Returns a file's digest, from an earlier command where the file has not changed since (`kept`).

    Args:
        path: The file.
        digest: Computes it: the sha256 of the content, in hex.
    """
    return kept("digests", [path], "", lambda: digest(path))


def kept(kind: str, files: Sequence[Path], what: str, find: Callable[[], str]) -> str:
    """Returns what is found in files, from an earlier command where none of them has changed since.

    A file is known by its device, inode, size, time of modification and time of change; the last one changes with
    every write, and no program can set it back. What was found lies in `$XDG_CACHE_HOME/lyncean/<kind>`
    (`~/.cache/lyncean/<kind>`), which may be deleted at any time; where nothing can be written, nothing is kept, nor
    of files of less than `WORTH_BYTES` together.

    Args:
        kind: The folder.
        files: The files, in an order of their own.
        what: Tells what is found apart from all else that is found in the same files.
        find: Finds it: 64 hexadecimal digits. What it raises is not kept.
    """
    before = [path.stat() for path in files]
    if sum(stat.st_size for stat in before) < WORTH_BYTES:
        return find()
    place = cache_folder() / kind / _name(before, what)
    with contextlib.suppress(OSError):
        known = place.read_text()
        if re.fullmatch(r"[0-9a-f]{64}", known):
            return known
    started = time.time()
    found = find()
    settled = all(started - max(stat.st_mtime, stat.st_ctime) > SETTLED_SECONDS for stat in before)
    if settled and _name([path.stat() for path in files], what) == place.name:
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            partial = place.with_suffix(f".{os.getpid()}")
            partial.write_text(found)
            partial.replace(place)
    return found


def _name(stats: Iterable[os.stat_result], what: str) -> str:
    words = [(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats]
    return hashlib.sha256(repr((words, what)).encode()).hexdigest()
