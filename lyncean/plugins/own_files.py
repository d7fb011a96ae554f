"""Files of a task's own data: the only files that its rows, code or configuration may name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "LMMS_EVAL_MEDIA_ROOT")
"""Environment variables for data folders, in addition to `HF_HOME`."""


class OwnFiles:
    """Data folders: those that the user named, and the caches of data sets.

    The cache's root, which holds the user's tokens, and hidden files and folders are excluded.

    Args:
        named: Files and folders that the user named; a file stands for its folder.
    """

    def __init__(self, named: Iterable[str | Path] = ()) -> None:
        paths = [Path(path).expanduser().resolve() for path in named]
        self._named = [path if path.is_dir() else path.parent for path in paths if path.exists()]

    def resolved(self, path: str | Path) -> Path | None:
        """Resolves a path with its links; returns None if the target is outside the folders or cannot be resolved."""
        try:
            target = Path(path).resolve()
            roots = [*self._named, *_caches()]
        except (OSError, ValueError, RuntimeError):  # a loop of links, a name with a null byte
            return None
        return target if any(_is_in(target, root) for root in roots) else None


def _caches() -> Iterator[Path]:
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    home = Path(os.environ.get("HF_HOME") or usual).expanduser()
    if home.is_dir():
        yield from (child.resolve() for child in home.iterdir() if child.is_dir() and child.name[0] != ".")
    for name in _CACHES:
        if value := os.environ.get(name):
            yield Path(value).expanduser().resolve()


def _is_in(path: Path, root: Path) -> bool:
    # Snapshots in the hub's cache link to files in a folder `blobs` next to them.
    for home in (root, *(parent.parent / "blobs" for parent in root.parents if parent.name == "snapshots")):
        if path.is_relative_to(home):
            return not any(part.startswith(".") for part in path.relative_to(home).parts)
    return False
