"""Files of a task's own data: those alone that its rows, code or configuration may name, however they name them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "LMMS_EVAL_MEDIA_ROOT")
"""Variables by which users name folders of data beside `HF_HOME`."""


class OwnFiles:
    """Folders of data: those that the user gave, and the caches of data sets.

    Neither the cache's root, which has the user's tokens, nor a hidden file or folder belongs to them.

    Args:
        given: Files and folders that the user named; of a file, its folder.
    """

    def __init__(self, given: Iterable[str | Path] = ()) -> None:
        paths = [Path(path).expanduser().resolve() for path in given]
        self._given = [path if path.is_dir() else path.parent for path in paths if path.exists()]

    def resolved(self, path: str | Path) -> Path | None:
        """Returns where a path leads, links followed; None where that is outside, or nowhere that can be told."""
        try:
            place = Path(path).resolve()
            roots = [*self._given, *_caches()]
        except (OSError, ValueError, RuntimeError):  # a loop of links, a name with a zero
            return None
        return place if any(_is_in(place, root) for root in roots) else None


def _caches() -> Iterator[Path]:
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    home = Path(os.environ.get("HF_HOME") or usual).expanduser()
    if home.is_dir():
        yield from (child.resolve() for child in home.iterdir() if child.is_dir() and child.name[0] != ".")
    for name in _CACHES:
        if value := os.environ.get(name):
            yield Path(value).expanduser().resolve()


def _is_in(place: Path, root: Path) -> bool:
    # A folder of the hub's cache has links to the files beside it.
    for home in (root, *(parent.parent / "blobs" for parent in root.parents if parent.name == "snapshots")):
        if place.is_relative_to(home):
            return not any(part.startswith(".") for part in place.relative_to(home).parts)
    return False
