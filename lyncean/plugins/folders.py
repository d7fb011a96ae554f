"""Folders: where what may be deleted at any time is kept, and those that users name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def cache_folder() -> Path:
    """Returns `$XDG_CACHE_HOME/lyncean`, by default `~/.cache/lyncean`; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lyncean"


def absolute(words: Iterable[str]) -> tuple[str, ...]:
    """Returns the absolute paths of folders."""
    return tuple(str(Path(word).expanduser().absolute()) for word in words)
