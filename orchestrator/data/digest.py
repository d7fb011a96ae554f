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
"""Age of a file's last change before its digest is cached: file systems' clocks tick as slowly as every two seconds."""


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


def kept(kind: str, files: Sequence[Path], key: str, find: Callable[[], str]) -> str:
    """Returns a digest of files, cached from an earlier command if none of them has changed since.

    A file is known by its device, inode, size, time of modification and time of change; the last one changes with
    every write, and no program can set it back. Digests are stored in `$XDG_CACHE_HOME/lyncean/<kind>`
    (`~/.cache/lyncean/<kind>`), which may be deleted at any time; without write access, and for files of less than
    `WORTH_BYTES` together, nothing is stored.

    Args:
        kind: Folder of the cache.
        files: The files, in an order of their own.
        key: Distinguishes several digests of the same files.
        find: Computes the digest, 64 hexadecimal digits. Its exceptions are not cached.
    """
    before = [path.stat() for path in files]
    if sum(stat.st_size for stat in before) < WORTH_BYTES:
        return find()
    cached = cache_folder() / kind / _name(before, key)
    with contextlib.suppress(OSError):
        known = cached.read_text()
        if re.fullmatch(r"[0-9a-f]{64}", known):
            return known
    started = time.time()
    digest = find()
    settled = all(started - max(stat.st_mtime, stat.st_ctime) > SETTLED_SECONDS for stat in before)
    if settled and _name([path.stat() for path in files], key) == cached.name:
        with contextlib.suppress(OSError):
            cached.parent.mkdir(parents=True, exist_ok=True)
            partial = cached.with_suffix(f".{os.getpid()}")
            partial.write_text(digest)
            partial.replace(cached)
    return digest


def _name(stats: Iterable[os.stat_result], key: str) -> str:
    fields = [(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats]
    return hashlib.sha256(repr((fields, key)).encode()).hexdigest()
