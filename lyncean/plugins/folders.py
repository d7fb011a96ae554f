"""The cache folder, which may be deleted at any time, and absolute paths of folders that users name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def cache_folder() -> Path:
    """Returns `$XDG_CACHE_HOME/lyncean`, by default `~/.cache/lyncean`; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lyncean"


def absolute(folders: Iterable[str]) -> tuple[str, ...]:
    """Returns the absolute paths of folders."""
    return tuple(str(Path(folder).expanduser().absolute()) for folder in folders)
