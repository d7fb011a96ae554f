"""Logs of other tools in the folder that is viewed, each read in the background into a run folder of its own."""

from __future__ import annotations

import contextlib
import itertools
import queue
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lyncean.errors import UserError
from orchestrator.errors import ConfigError
from orchestrator.extensions import LOGS, LogReader
from orchestrator.report.live.followed import DEPTH, Followed, shown_path
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.reader import Run


class ToolLog:
    """One log, and the run folder made of it once that is done.

    Args:
        path: The log.
        name: Its name in the table.
        folder: The run folder to create.
        reader: Reads it.

    Attributes:
        path: The run folder.
        stamp_of_log: What the log was like when it was found: it is read anew when that changes.
    """

    def __init__(self, path: Path, name: str, folder: Path, reader: LogReader) -> None:
        self.name, self.path = name, folder
        self.stamp_of_log = stamp(path)
        self._log, self._reader = path, reader
        self._lock = threading.Lock()
        self._followed: Followed | None = None
        self._error: UserError | None = None

    def load(self) -> Followed:
        """Returns the run made of the log, made now if need be.

        Raises:
            UserError: The log cannot be read.
        """
        with self._lock:
            if self._followed is None and self._error is None:
                try:
                    self._reader.make_run(self._log, self.path)
                    self._followed = Followed(self.path, self.name)
                except UserError as error:
                    self._error = error
                except Exception as error:  # no content of another tool's file may hide other runs
                    self._error = ConfigError(f"{self.name} cannot be read: {type(error).__name__}: {error}")
            if self._error is not None:
                raise self._error
            assert self._followed is not None
            return self._followed

    def state(self) -> dict[str, Any]:
        """Returns what the table shows of it: nothing yet before it is read."""
        if self._followed is not None:
            return self._followed.state()
        return {
            "name": self.name, "model": "", "tool": "", "tasks": [], "method": "", "blind": False, "created": "",
            "total": None, "estimated": True, "metrics": [], "answered": 0, "counts": {}, "mean": None,
            "state": "reading" if self._error is None else "unreadable", "note": str(self._error or ""),
        }  # fmt: skip

    def run(self) -> Run:
        """Returns the run made of the log.

        Raises:
            UserError: The log cannot be read.
        """
        return self.load().run()

    def stamp(self) -> tuple[float, ...]:
        """Returns what changes whenever the run's page would."""
        return self.stamp_of_log


def stamp(path: Path) -> tuple[float, ...]:
    """Returns what changes when a file is written."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime


def find_logs(folder: Path, depth: int, readers: Sequence[LogReader]) -> Iterator[tuple[Path, LogReader]]:
    """Yields what may be a log, at most `depth` levels below a folder, and what reads it.

    Run folders are not looked into.
    """
    if (folder / MANIFEST).exists():
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if reader := next((one for one in readers if one.is_log(entry)), None):
            yield entry, reader
        elif depth and entry.is_dir():
            yield from find_logs(entry, depth - 1, readers)


class ToolLogs:
    """The logs in a folder. A thread reads them, one after another, into a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self._viewed = folder
        self._readers = [LOGS.get(name) for name in LOGS.names()]
        self._known: dict[Path, ToolLog] = {}
        self._growing: dict[Path, tuple[float, ...]] = {}
        self._numbers = itertools.count()
        self._waiting: queue.SimpleQueue[ToolLog] = queue.SimpleQueue()
        self._folder: TemporaryDirectory[str] | None = None

    def runs(self) -> dict[str, ToolLog]:
        """Returns the logs by their names; one that has changed is read again once it rests."""
        logs = dict(find_logs(self._viewed, DEPTH - 1, self._readers))
        for path in self._known.keys() - logs.keys():
            self._forget(path)
        for path, reader in logs.items():
            known, now = self._known.get(path), stamp(path)
            if known and known.stamp_of_log != now and self._growing.get(path) == now:
                self._forget(path)
            if path not in self._known:
                name = shown_path(path.relative_to(self._viewed))
                self._known[path] = ToolLog(path, name, self._place(), reader)
                self._waiting.put(self._known[path])
            self._growing[path] = now
        return {log.name: log for log in self._known.values()}

    def _place(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="lyncean-view-", ignore_cleanup_errors=True)
            threading.Thread(target=self._work, daemon=True).start()
        return Path(self._folder.name) / str(next(self._numbers))

    def _forget(self, path: Path) -> None:
        shutil.rmtree(self._known.pop(path).path, ignore_errors=True)

    def _work(self) -> None:
        while True:
            with contextlib.suppress(UserError):  # its row says so
                self._waiting.get().load()
