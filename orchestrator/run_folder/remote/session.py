"""A remote run folder in use: fetched before, uploaded while and after."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError, EngineError
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.log import RunLogError
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.remote.lease import Lease
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.store import RemoteError, Store

SECONDS = "LYNCEAN_UPLOAD_SECONDS"
"""Environment variable: seconds between two uploads of a run that goes on."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")
_TRIES = 3

Guard = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is written.

    Attributes:
        path: The local folder; None where the command chooses it.
        guards: What has to run beside the run.
    """

    path: Path | None
    guards: Sequence[Guard] = ()


def is_remote(word: str | Path | None) -> bool:
    """Returns whether a run folder is a URL."""
    return isinstance(word, str) and bool(_URL.fullmatch(word))


def fetched(url: str) -> Path:
    """Returns a local folder with all that a remote run folder holds.

    Raises:
        RemoteError: If it cannot be read, or is damaged.
        ConfigError: If there is no run, or the URL cannot be used.
    """
    mirror = Mirror(_local(url), Store(url))
    if not mirror.there:
        raise ConfigError(f"{url} is not a run folder: {MANIFEST} is missing")
    _download(mirror)
    return mirror.local


@contextlib.contextmanager
def writing(run: str | Path | None) -> Iterator[Place]:
    """Gives the local folder of a run that is about to be written; a remote one is uploaded in the end.

    Raises:
        RunBusyError: If another process writes to the remote folder.
        RemoteError: If it cannot be read, or at the end not be written.
        ConfigError: If the URL cannot be used.
    """
    if run is None or not is_remote(run):
        yield Place(None if run is None else Path(run))
        return
    url = str(run)
    every = _seconds()
    store = Store(url)
    lease = Lease(store, max(180.0, 3 * every))
    try:
        mirror = Mirror(_local(url), store)
        if mirror.there:
            _download(mirror)
        session = _Session(mirror, lease, every)
        try:
            yield Place(mirror.local, (session.keep,))
        except (EngineError, RunLogError, ManifestError):
            # What ended the run is said; what of it was not uploaded is, once the command runs again.
            with contextlib.suppress(RunLogError):
                session.finish()
            raise
        session.finish()
    finally:
        with contextlib.suppress(RunLogError):
            lease.check()
            lease.release()


class _Session:
    """Uploads a run while it goes on."""

    def __init__(self, mirror: Mirror, lease: Lease, every: float) -> None:
        self._mirror, self._lease, self._every = mirror, lease, every
        self._looked = False
        self._busy = threading.Lock()

    async def keep(self) -> None:
        """Uploads again and again; a try that fails is made up for by the next."""
        while True:
            try:
                await asyncio.to_thread(self._once)
            except RemoteError as error:
                print(f"not uploaded yet, the run goes on: {error}", file=sys.stderr)
            await asyncio.sleep(self._every)

    def finish(self) -> None:
        """Uploads what is left, and makes sure that all of it is there.

        Raises:
            RemoteError: If it cannot be.
        """
        if not (self._mirror.local / MANIFEST).exists():
            return
        for left in reversed(range(_TRIES)):
            try:
                self._looked = False
                return self._once()
            except RemoteError as error:
                if not left:
                    raise RemoteError(
                        f"not all of the run is uploaded: {error}; all of it is in {self._mirror.local}: "
                        "run the same command on this machine again to upload it"
                    ) from error

    def _once(self) -> None:
        # A thread of `keep` may still upload when the run has ended.
        with self._busy:
            self._lease.renew()
            if not self._looked:
                self._mirror.look()
                self._looked = True
            self._mirror.upload()


def _download(mirror: Mirror) -> None:
    """Makes the local folder hold what the remote one does; what it held of other answers is moved aside."""
    if (mirror.local / MANIFEST).exists():
        if mirror.follows():
            return
        aside = next(
            path for number in range(1, 10_000) if not (path := Path(f"{mirror.local}.superseded{number}")).exists()
        )
        mirror.local.rename(aside)
        print(f"{mirror.store.url} holds other answers than this machine's copy, now in {aside}", file=sys.stderr)
    mirror.fetch()


def _local(url: str) -> Path:
    """Returns the folder in which a remote run is kept here."""
    url = url.rstrip("/")
    name = re.sub(r"[^\w.+-]", "_", url.rpartition("/")[2])
    return Path("runs") / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def _seconds() -> float:
    word = os.environ.get(SECONDS, "60")
    try:
        found = float(word)
    except ValueError:
        found = 0.0
    if not 0 < found < 86_400:
        raise ConfigError(f"{SECONDS}={word}: give seconds, more than 0 and less than a day")
    return found
