"""`eval --suite FILE --checkpoints PATTERN`: evaluates the checkpoints of a training as it makes them.

The suite's folder holds the whole state: a watcher that is killed and started anywhere with the same suite and
the same checkpoints goes on with the cell that was interrupted, and asks nothing that has an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from lyncean.errors import printable
from lyncean.rpc import PLAIN, Credentials
from lyncean.rpc.waits import in_thread
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.report import leaderboard
from orchestrator.run.local_server import LocalServers
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.lock import lock
from orchestrator.run_folder.remote import RemoteError, grace
from orchestrator.suite import record as records, run as suites
from orchestrator.suite.checkpoint_store import checkpoints_of
from orchestrator.suite.checkpoints import Found
from orchestrator.suite.file import SuiteFile, of_file
from orchestrator.suite.outputs import board_of
from orchestrator.suite.record import Record
from orchestrator.suite.run import Session

LOOK = 5.0
"""Seconds between two scans of the folders."""
_AGAIN = 60.0
"""Seconds after which a cell that could not be completed is tried again."""
_UNTIL = re.compile(r"\s*(?:(now)|step\s*>=\s*(\d+))\s*")
Completed = Callable[[Record], None]
"""Takes the record after each checkpoint."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class End:
    """End of watching: `now`, with the checkpoints complete now, or with the first one at or after a step."""

    now: bool = False
    step: int | None = None

    @classmethod
    def of(cls, text: str | None) -> End:
        """Reads --until.

        Raises:
            ConfigError: If it is not an end.
        """
        match = _UNTIL.fullmatch(text or "")
        if text is not None and not match:
            raise ConfigError(f"--until {text}: beside --checkpoints write step>=STEP, or now for those that are there")
        return cls(bool(match[1]), int(match[2]) if match[2] else None) if match else cls()

    def reached(self, complete: Sequence[Found]) -> bool:
        """Returns whether watching ends with these checkpoints."""
        return self.now or (self.step is not None and any(checkpoint.step >= self.step for checkpoint in complete))


class Pages:
    """Writes the leaderboard after each checkpoint, and prints each alarm once."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder, self._console = folder, console
        self._shown: set[str] = set()

    def __call__(self, record: Record) -> None:
        """Takes the record of a pass."""
        board = board_of(record, self._folder)
        leaderboard.save(board, self._folder)
        for change in board.changes:
            if change.alarm and (line := f"alarm: {change.model} {change.variant}".rstrip() + f" {change.why}") not in (
                self._shown
            ):
                self._shown.add(line)
                self._console.print(line, style="bold red", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps a second watcher out of a suite's folder.

    Raises:
        ConfigError: If the folder cannot be made.
        RunBusyError: If another watcher holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise ConfigError(f"--run {folder} cannot be made: {failure.strerror}") from failure
    taken = lock(folder)
    try:
        yield
    finally:
        taken.close()


class Watcher:
    """Evaluates each complete checkpoint of a pattern.

    Args:
        suite: The suite.
        pattern: Pattern of the checkpoints' folders, or a URL.
        folder: The suite's folder.
        console: Receives progress.
        credentials: Of servers that run already.
    """

    def __init__(
        self, suite: SuiteFile, pattern: str, folder: Path, console: Console, credentials: Credentials = PLAIN
    ) -> None:
        self._file, self._pattern, self._folder, self._console = suite, pattern, folder, console
        self._checkpoints = checkpoints_of(pattern)
        self._credentials = credentials
        self._tried: dict[str, float] = {}
        self._complete: Sequence[Found] = ()
        self._waiting: list[Path] = []
        self._told = False

    async def watch(self, end: End, completed: Completed) -> Record:
        """Evaluates until the end, Ctrl-C or SIGTERM; returns the last record.

        Raises:
            UserError: As a suite that is run; or another watcher writes to the folder.
        """
        grace.renew()
        with held(self._folder):
            async with LocalServers(reloads=True) as local:
                session = Session(local)
                record = await self._evaluate([], session, completed)
                while not session.stopped:
                    with _signalled() as signalled:
                        due = await self._next(session, end, signalled)
                        if due is None or not await self._fetched(due, signalled):
                            break
                    # One at a time, so that the page shows each as soon as it is evaluated.
                    complete = self._complete[: self._complete.index(due) + 1]
                    record = await self._evaluate(complete, session, completed)
                    if record and all(cell.name in session.settled for cell in record.cells if cell.model == due.name):
                        await asyncio.to_thread(self._checkpoints.drop, due)
        if record is None:
            raise IncompleteError(
                f"no checkpoint of {self._pattern} is complete{self._not_complete()}; run the same command again"
            )
        return record

    async def _next(self, session: Session, end: End, signalled: asyncio.Event) -> Found | None:
        """Returns the next checkpoint to evaluate; None at the end, or on a signal."""
        while True:
            complete = await self._patiently(self._find, signalled)
            if complete is None:
                return None
            self._complete = complete
            if (due := self._due(complete, session)) is not None or end.reached(complete):
                return due
            if not self._told:
                self._told = True
                self._console.print(f"waiting for checkpoints of {self._pattern}", style="dim", highlight=False)
            if await _is_set(signalled, LOOK):
                return None

    async def _fetched(self, due: Found, signalled: asyncio.Event) -> bool:
        """Makes sure that a checkpoint is on this machine if it is to be asked; returns False on a signal."""

        def fetch() -> bool:
            self._checkpoints.fetch(due)
            return True

        return self._is_recorded(due) or bool(await self._patiently(fetch, signalled))

    async def _patiently(self, call: Callable[[], T], signalled: asyncio.Event) -> T | None:
        """Returns the result of a call that reads a bucket, made again where it fails; None on a signal.

        Raises:
            RemoteError: If it has failed for as long as the cells are patient.
        """
        since: float | None = None
        while True:
            result = asyncio.ensure_future(in_thread(call, "bucket"))
            stop = asyncio.ensure_future(signalled.wait())
            either: set[asyncio.Future[Any]] = {result, stop}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if not result.done():
                result.cancel()
                return None
            try:
                value = result.result()
                return None if signalled.is_set() else value
            except RemoteError as error:
                cells = of_file(self._file, self._credentials, self._complete).cells
                patience = max((cell.request.patience for cell in cells), default=RunRequest(()).patience)
                if since is None:
                    since = time.monotonic()
                    line = f"{error}; tried again for {patience:,.0f} s"
                    self._console.print(line, style="yellow", highlight=False, soft_wrap=True)
                elif time.monotonic() - since >= patience:
                    raise
            if await _is_set(signalled, LOOK):
                return None

    def _is_recorded(self, due: Found) -> bool:
        """Returns whether all cells of a checkpoint are complete, by the folder's record."""
        if not (self._folder / records.FILE).exists():
            return False
        known = {cell.name: cell for cell in records.read(self._folder).cells if cell.fingerprint == due.fingerprint}
        cells = [cell for cell in of_file(self._file, self._credentials, [due]).cells if cell.model == due.name]
        return all(cell.name in known and known[cell.name].request for cell in cells)

    async def _evaluate(self, complete: Sequence[Found], session: Session, completed: Completed) -> Record | None:
        suite = of_file(self._file, self._credentials, complete)
        if not suite.cells:
            return None
        record = await suites.run_pass(suite, self._folder, self._console, session)
        completed(record)
        return record

    def _find(self) -> list[Found]:
        complete, waiting = self._checkpoints.find()
        for path in waiting:
            if path not in self._waiting:
                self._console.print(f"{path} is not complete yet", style="dim", highlight=False, soft_wrap=True)
        self._waiting = waiting
        return complete

    def _due(self, complete: Sequence[Found], session: Session) -> Found | None:
        """Returns the first checkpoint that is not evaluated, was not tried just now, and notes that it is tried."""
        cells = of_file(self._file, self._credentials, complete).cells
        open_ = {cell.model for cell in cells if cell.name not in session.settled}
        for checkpoint in complete:
            if checkpoint.name in open_ and time.monotonic() - self._tried.get(checkpoint.name, -_AGAIN) >= _AGAIN:
                self._tried[checkpoint.name] = time.monotonic()
                return checkpoint
        return None

    def _not_complete(self) -> str:
        return f" ({len(self._waiting)} are there: {printable(str(self._waiting[0]))})" if self._waiting else ""


async def _is_set(signalled: asyncio.Event, seconds: float) -> bool:
    """Waits for so long, or until the event is set; returns whether it is."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signalled.wait(), seconds)
    return signalled.is_set()


@contextlib.contextmanager
def _signalled() -> Iterator[asyncio.Event]:
    """Yields an event that Ctrl-C and SIGTERM set; they reach the main thread alone."""
    signalled = asyncio.Event()
    main = threading.current_thread() is threading.main_thread()
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}

    def handle() -> None:
        signalled.set()
        grace.begin()

    for number in before:
        loop.add_signal_handler(number, handle)
    try:
        yield signalled
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
