"""The run folders below a URL and the versions of their files, by listing alone."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from orchestrator.errors import ConfigError
from orchestrator.run_folder.files import IMAGES, MANIFEST, RESPONSES, RESULTS, VERDICTS
from orchestrator.run_folder.remote.lease import WRITER
from orchestrator.run_folder.remote.store import Store

_CONCURRENT = 16
_MOST_FOLDERS = 5000
_LOGS = (RESPONSES.removesuffix(".jsonl"), VERDICTS.removesuffix(".jsonl"))


class RemoteRun(NamedTuple):
    """A run folder in a store.

    Attributes:
        versions: The versions of the objects at its top by their names.
        lines: The parts of its logs while it has no results yet: they change as it grows.
    """

    versions: dict[str, str]
    lines: tuple[str, ...]

    @property
    def grows(self) -> bool:
        """True for a run without results."""
        return MANIFEST in self.versions and RESULTS not in self.versions

    @property
    def stamp(self) -> tuple[tuple[str, ...], ...]:
        """A value that changes whenever the run's page would; its writer's renewals do not change it."""
        return self.lines, *(pair for pair in sorted(self.versions.items()) if pair[0] != WRITER)


def find_remote_runs(store: Store, depth: int, *others: str) -> dict[str, RemoteRun]:
    """Returns the run folders at most `depth` levels below a URL, itself included as "", by their paths.

    Folders that have a file of one of the names `others` are returned as well.

    Raises:
        RemoteError: If it cannot be read.
        ConfigError: If it has too many folders.
    """
    runs: dict[str, RemoteRun] = {}
    level, visited = [""], 0
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        for _ in range(depth + 1):
            visited += len(level)
            if visited > _MOST_FOLDERS:
                raise ConfigError(f"{store.url} has more than {_MOST_FOLDERS:,} folders: give the URL of one of them")
            below = []
            for folder, (objects, folders) in zip(level, pool.map(store.listing, level), strict=True):
                is_run = MANIFEST in objects
                if is_run or any(name in objects for name in others):
                    versions = {name: f"{it['e_tag']} {it['last_modified']}" for name, it in objects.items()}
                    runs[folder] = RemoteRun(versions, ())
                known_folders = {*_LOGS, IMAGES} if is_run else ()
                below += [f"{folder}/{name}".lstrip("/") for name in folders if name not in known_folders]
            level = below
        growing = [folder for folder, run in runs.items() if run.grows]
        for folder, lines in zip(growing, pool.map(lambda path: _lines(store.below(path)), growing), strict=True):
            runs[folder] = runs[folder]._replace(lines=tuple(lines))
    return runs


def _lines(run: Store) -> Iterable[str]:
    return sorted(name for log in _LOGS for name in run.names(log))
