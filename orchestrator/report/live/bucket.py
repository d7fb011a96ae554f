"""The runs below the URL of an object store: listed, and each fetched once it is opened."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lyncean.errors import UserError
from orchestrator.errors import ConfigError
from orchestrator.report.live.followed import DEPTH, Followed
from orchestrator.run_folder.durable import write_file
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.remote.listing import RemoteRun, find_remote_runs
from orchestrator.run_folder.remote.mirror import Copy
from orchestrator.run_folder.remote.store import Store
from orchestrator.run_folder.state import RunState
from orchestrator.suite.record import FILE
from orchestrator.suite.training import LEADERBOARD

_EVERY_SECONDS = 30
_WAIT_SECONDS = 1.0
"""Seconds that a page waits for a run being fetched before it shows the progress."""
_MOST_BYTES, _KEPT_RUNS, _KEPT_SECONDS = 8 << 30, 6, 600.0
"""Fetched runs are dropped, the longest unused first, while they are larger than this.

Those used last stay, and those used within the last minutes: the page of a training needs all of its runs.
"""
_FREE_BYTES = 1 << 30


class FetchingError(UserError):
    """The run is being fetched: look again soon."""


class RemoteFollowed:
    """One run of a store: its small files are here always, the rest once it was opened.

    Args:
        store: Its folder in the store.
        path: Its folder here.
        name: Its name in the table.
    """

    def __init__(self, store: Store, path: Path, name: str) -> None:
        self.name, self.path = name, path
        self.used, self.bytes = 0.0, 0
        self._url, self._copy, self._followed = store.url, Copy(path, store), Followed(path, name)
        self._listed = RemoteRun({}, ())
        self._fetched: object = None
        self._worker: threading.Thread | None = None
        self._progress, self._error, self._error_is_shown = "", "", False

    @property
    def _busy(self) -> bool:
        return self._worker is not None and self._worker.is_alive()

    def update(self, listed: RemoteRun) -> None:
        """Gets what the table needs of the run, as far as it changed.

        Raises:
            RemoteError: It cannot be read.
        """
        if not self._busy:
            self._copy.update(listed.versions)
            self._listed = listed

    def state(self) -> dict[str, Any]:
        """Returns what the table shows of it."""
        shown = dict(self._followed.state())
        note = ""
        if shown["state"] != RunState.COMPLETE:
            shown["state"] = RunState.RUNNING if self._copy.is_written() else RunState.STOPPED
            if not self._fetched:
                shown |= {"answered": None, "counts": {}, "mean": None}
            if self._fetched != self._listed.stamp:
                note = "answers as of when it was opened" if self._fetched else "answers are counted once it is opened"
        return {**shown, "note": self._progress if self._busy else self._error or note}

    def stamp(self) -> tuple[object, ...]:
        """Returns what changes whenever the run's page would."""
        return self._listed.stamp

    def run(self) -> Run:
        """Returns the run, fetched now if need be.

        Raises:
            FetchingError: That takes longer.
            UserError: It cannot be fetched, or is damaged.
        """
        self.used = time.monotonic()
        stamp = self._listed.stamp
        if not self._busy and self._fetched != stamp and (not self._error or self._error_is_shown):
            self._progress, self._error, self._error_is_shown = "fetching", "", False
            self._worker = threading.Thread(target=self._fetch, args=(stamp,), daemon=True)
            self._worker.start()
        if self._worker:
            self._worker.join(_WAIT_SECONDS)
        if self._busy:
            raise FetchingError(self._progress)
        if self._error:
            self._error_is_shown = True  # who opens it again tries again
            raise ConfigError(self._error)
        try:
            return self._followed.run()
        except UserError as error:
            raise ConfigError(str(error).replace(str(self.path), self._url)) from error

    def _fetch(self, stamp: object) -> None:
        try:
            self._copy.fetch(self._note_progress)
            self._fetched = stamp
        except UserError as error:
            self._error = str(error)
        except Exception as error:  # else it would be taken for whole
            self._error = f"{self._url} cannot be fetched: {type(error).__name__}: {error}"

    def _note_progress(self, done: int, total: int) -> None:
        self.bytes = total
        if not done and shutil.disk_usage(self.path).free < total + _FREE_BYTES:
            raise ConfigError(f"{self._url} has {total / 1e9:,.1f} GB: free space in {self.path.parent}, or set TMPDIR")
        self._progress = f"fetching: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB"

    def drop(self) -> None:
        """Removes what was fetched when it was opened."""
        if not self._busy:
            self._copy.clear()
            self._fetched, self.bytes = None, 0


class RemoteSuite:
    """The record and the leaderboard of a suite in a store.

    Args:
        store: Its folder in the store.
        path: Its folder here.
    """

    def __init__(self, store: Store, path: Path) -> None:
        self.path, self._store = path, store
        self._versions: dict[str, str] = {}

    def update(self, listed: RemoteRun) -> None:
        """Gets what has changed.

        Raises:
            RemoteError: It cannot be read.
        """
        for name in (FILE, LEADERBOARD):
            version = listed.versions.get(name, "")
            if version != self._versions.get(name, "") and (data := self._store.get(name)) is not None:
                write_file(self.path / name, data)
                self._versions[name] = version


class Bucket:
    """The runs below a URL, listed again at most every 30 seconds, and only while somebody looks.

    Attributes:
        title: What the page is called.
        problem: Why the runs could not be listed the last time, "" where they were.
        suites: A local folder with the record and the leaderboard of each suite, by its path below.

    Raises:
        RemoteError: It cannot be read.
        ConfigError: It cannot be used, or contains no run.
    """

    def __init__(self, url: str) -> None:
        self._store = Store(url)
        self.title, self.problem = self._store.url, ""
        self.suites: dict[str, Path] = {}
        self._suites: dict[str, RemoteSuite] = {}
        self._known: dict[str, RemoteFollowed] = {}
        self._numbers = itertools.count()
        self._temporary = TemporaryDirectory(prefix="lyncean-view-", ignore_cleanup_errors=True)
        self._looking = threading.Lock()
        self._look()
        if not self._known:
            raise ConfigError(f"{self.title} has no run folder, itself or up to {DEPTH - 1} folders below")

    def runs(self) -> dict[str, RemoteFollowed]:
        """Returns the runs by their names, as they were when they were listed last."""
        if time.monotonic() - self._looked > _EVERY_SECONDS and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look_again, daemon=True).start()
        self._evict()
        return {run.name: run for run in self._known.values()}

    def _look_again(self) -> None:
        try:
            self._look()
            self.problem = ""
        except UserError as error:
            self.problem = str(error)
        finally:
            self._looked = time.monotonic()
            self._looking.release()

    def _look(self) -> None:
        listed = find_remote_runs(self._store, DEPTH - 1, FILE)
        known = {}
        for address, state in listed.items():
            if FILE in state.versions:
                if address not in self._suites:
                    self._suites[address] = RemoteSuite(self._store.below(address), self._folder())
                self._suites[address].update(state)
            if MANIFEST not in state.versions:
                continue
            run = self._known.get(address) or self._new(address)
            run.update(state)
            known[address] = run
        for address in self._known.keys() - known.keys():
            self._known[address].drop()
        self.suites = {address: suite.path for address, suite in self._suites.items() if address in listed}
        self._known = known
        self._looked = time.monotonic()

    def name(self, address: str) -> str:
        """Returns the name of what lies at a path below."""
        return address or self.title.rpartition("/")[2]

    def _new(self, address: str) -> RemoteFollowed:
        return RemoteFollowed(self._store.below(address), self._folder(), self.name(address))

    def _folder(self) -> Path:
        path = Path(self._temporary.name) / str(next(self._numbers))
        path.mkdir()
        return path

    def _evict(self) -> None:
        fetched = sorted((run for run in self._known.values() if run.bytes), key=lambda run: run.used)
        until = time.monotonic() - _KEPT_SECONDS
        while (
            len(fetched) > _KEPT_RUNS and fetched[0].used <= until and sum(run.bytes for run in fetched) > _MOST_BYTES
        ):
            fetched.pop(0).drop()
