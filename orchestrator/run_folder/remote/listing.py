"""The run folders below a URL, and which versions of their files are there: by listing alone."""

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
        lines: The parts of its logs, where it has no results yet: what changes while it grows.
    """

    versions: dict[str, str]
    lines: tuple[str, ...]

    @property
    def stamp(self) -> tuple[tuple[str, ...], ...]:
        """What changes whenever the run's page would; that its writer lives on changes nothing."""
        return self.lines, *(pair for pair in sorted(self.versions.items()) if pair[0] != WRITER)


def find_remote_runs(store: Store, depth: int) -> dict[str, RemoteRun]:
    """Returns the run folders at most `depth` levels below a URL, itself included as "", by their places.

    Raises:
        RemoteError: It cannot be read.
        ConfigError: There are too many folders.
    """
    found: dict[str, RemoteRun] = {}
    level, asked = [""], 0
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        for _ in range(depth + 1):
            asked += len(level)
            if asked > _MOST_FOLDERS:
                raise ConfigError(f"{store.url} has more than {_MOST_FOLDERS:,} folders: give the URL of one of them")
            below = []
            for folder, (objects, folders) in zip(level, pool.map(store.listing, level), strict=True):
                if is_run := MANIFEST in objects:
                    versions = {name: f"{it['e_tag']} {it['last_modified']}" for name, it in objects.items()}
                    found[folder] = RemoteRun(versions, ())
                own = {*_LOGS, IMAGES} if is_run else ()
                below += [f"{folder}/{name}".lstrip("/") for name in folders if name not in own]
            level = below
        growing = [place for place, run in found.items() if RESULTS not in run.versions]
        for place, lines in zip(growing, pool.map(lambda place: _lines(store.below(place)), growing), strict=True):
            found[place] = found[place]._replace(lines=tuple(lines))
    return found


def _lines(run: Store) -> Iterable[str]:
    return sorted(name for log in _LOGS for name in run.names(log))
