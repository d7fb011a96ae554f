"""Digests of data files for a run's manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from orchestrator.data.known_digests import remembered

FULL_BYTES = 2 << 30
"""Up to so many bytes altogether every byte is hashed; beyond, each file is sampled."""

_EDGE = 1 << 20


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
    one = _sampled if sampled else _full_or_remembered
    if len(named) == 1:
        digest = one(named[0][1])
    else:
        lines = "".join(f"{one(path)}  {name}\n" for name, path in named)
        digest = hashlib.sha256(lines.encode()).hexdigest()
    return f"sampled:{digest}" if sampled else digest


def _full_or_remembered(path: Path) -> str:
    return remembered(path, _full)


def _full(path: Path) -> str:
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
