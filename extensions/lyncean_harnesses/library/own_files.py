"""Restricts the data that the configuration of a foreign task names to its own files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lyncean.plugins import OwnFiles

_REMOTE = ("hf", "http", "https", "s3", "gs", "gcs", "az", "abfs", "zip", "tar", "gzip", "bz2", "xz", "zstd")
"""Protocols of remote files and of archives; those of archives precede another address."""


def outside(files: OwnFiles, path: str, data_files: Any = None, data_dir: str | None = None) -> str:
    """Returns the first file outside of `files` that arguments of `datasets.load_dataset` name, "" for none."""
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    base: str | None = None  # base of relative names: a local folder, or the hub
    if path in _PACKAGED_DATASETS_MODULES:
        base = data_dir or ""
    elif Path(path).exists():
        base = path if Path(path).is_dir() else str(Path(path).parent)
    if base and files.resolved(base) is None:
        return base
    return next((file for name in _flat(data_files) if (file := _outside(files, name, base))), "")


def _outside(files: OwnFiles, name: str, base: str | None) -> str:
    for address in name.split("::"):
        protocol, colons, _ = address.partition("://")
        if colons and protocol not in _REMOTE:
            return name
    last = name.rpartition("::")[2]
    if "://" in last or (base is None and not Path(last).is_absolute()):
        return ""
    from datasets.data_files import resolve_pattern

    try:
        named = resolve_pattern(last, base or "")
    except (FileNotFoundError, ValueError):  # the loader reports it
        named = [str(Path(base or "") / last)]
    return next((file for file in named if files.resolved(file) is None), "")


def _flat(names: Any) -> Iterator[str]:
    if isinstance(names, (str, os.PathLike)):
        yield os.fspath(names)
    elif isinstance(names, dict):
        yield from _flat(list(names.values()))
    elif names is not None:
        for item in names:
            yield from _flat(item)
