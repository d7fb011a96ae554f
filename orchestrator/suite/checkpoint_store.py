"""The checkpoints of a pattern: folders of this machine, or of a bucket, fetched one at a time."""

from __future__ import annotations

import fnmatch
import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from orchestrator.errors import ConfigError
from orchestrator.run_folder.remote.session import local_folder
from orchestrator.run_folder.remote.store import RemoteError, Store
from orchestrator.suite import checkpoints
from orchestrator.suite.checkpoints import Found

if TYPE_CHECKING:
    from obstore import ObjectMeta

_CONCURRENT = 8


class Checkpoints:
    """Checkpoints in folders of this machine.

    Args:
        pattern: Pattern of the folders.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def find(self) -> tuple[list[Found], list[Path]]:
        """Returns the complete checkpoints by step, and the folders that are not complete yet.

        Raises:
            ConfigError: If no folder's name has a step, two have the same, or one cannot name a model of a suite.
        """
        return checkpoints.find(self.pattern)

    def fetch(self, checkpoint: Found) -> None:
        """Makes sure that a checkpoint's folder is on this machine."""

    def drop(self, checkpoint: Found) -> None:
        """Removes the fetched files."""


class RemoteCheckpoints(Checkpoints):
    """Checkpoints in a bucket: a local copy lasts while the checkpoint is evaluated.

    Args:
        pattern: A URL; its last part alone may have `*`, `?` and `[`.

    Raises:
        ConfigError: If it is not such a URL, or cannot be used.
    """

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        above, _, self._names = pattern.rstrip("/").rpartition("/")
        if re.search(r"[*?\[]", above):
            raise ConfigError(f"--checkpoints {pattern}: in a bucket the last part alone is a pattern, as step_* is")
        self._store, self._here = Store(above), local_folder(pattern)
        self._known: dict[str, Found] = {}

    def find(self) -> tuple[list[Found], list[Path]]:
        """Returns the complete checkpoints by step, and the folders that are not complete yet.

        Raises:
            ConfigError: If no folder's name has a step, two have the same, or one cannot name a model of a suite.
            RemoteError: If the bucket cannot be read.
        """
        matches = fnmatch.filter(self._store.listing("")[1], self._names)
        steps = checkpoints.by_step([Path(name) for name in sorted(matches)], 1)
        waiting = []
        for step, (name, path) in steps.items():
            if name not in self._known and (checkpoint := self._checkpoint(name, step)):
                self._known[name] = checkpoint
            if name not in self._known:
                waiting.append(path)
        return [self._known[name] for name, _ in steps.values() if name in self._known], waiting

    def _checkpoint(self, name: str, step: int) -> Found | None:
        store = self._store.below(name)
        objects = store.listing("")[0]
        if not _is_complete(store, objects):
            return None
        files = ((file, objects[file]["size"], partial(store.part, file)) for file in sorted(objects))
        return Found(name, step, (self._here / name).absolute(), checkpoints.digest(files))

    def fetch(self, checkpoint: Found) -> None:
        """Fetches a checkpoint; files that are here already stay.

        Raises:
            RemoteError: If it cannot be read, or was written anew.
        """
        store = self._store.below(checkpoint.name)
        checkpoint.path.mkdir(parents=True, exist_ok=True)
        sizes = store.names("")
        wanted = [name for name, size in sizes.items() if _size(checkpoint.path / name) != size]
        with ThreadPoolExecutor(_CONCURRENT) as pool:
            list(pool.map(lambda name: store.download(name, checkpoint.path / name), wanted))
        if checkpoints.fingerprint(checkpoint.path) != checkpoint.fingerprint:
            self.drop(checkpoint)
            self._known.pop(checkpoint.name, None)
            raise RemoteError(f"{store.url} was written anew while it was fetched")

    def drop(self, checkpoint: Found) -> None:
        """Removes the fetched files."""
        shutil.rmtree(checkpoint.path, ignore_errors=True)


def checkpoints_of(pattern: str) -> Checkpoints:
    """Returns the checkpoints of a pattern of folders, or of a URL.

    Raises:
        ConfigError: If it is a URL that cannot be used.
    """
    return RemoteCheckpoints(pattern) if "://" in pattern else Checkpoints(pattern)


def _is_complete(store: Store, objects: Mapping[str, ObjectMeta]) -> bool:
    """Returns whether a checkpoint is written in full, by the rules of `checkpoints.is_complete`: objects are whole."""
    if any(marker in objects for marker in checkpoints.MARKERS):
        return True
    if not checkpoints.has_model(objects):
        return False
    quiet = time.time() - max(meta["last_modified"].timestamp() for meta in objects.values())
    if quiet >= checkpoints.QUIET:
        return True
    index = store.get(checkpoints.INDEX) if checkpoints.INDEX in objects else None
    try:
        listed = checkpoints.listed(set(objects), index)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return False
    return quiet >= checkpoints.SETTLED and bool(listed) and listed <= objects.keys()


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1
