"""A remote run folder in use: fetched before a run, uploaded during and after it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lyncean.rpc.waits import in_thread
from orchestrator.errors import ConfigError, EngineError, StoppedError
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.remote import grace
from orchestrator.run_folder.remote.lease import Lease
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.store import RemoteError, Store

SECONDS = "LYNCEAN_UPLOAD_SECONDS"
"""Environment variable: seconds between two uploads of a run that goes on."""

Guard = Callable[[], Coroutine[Any, Any, None]]


def fetched(url: str) -> Path:
    """Returns a local folder with all that a remote run folder holds.

    Raises:
        RemoteError: If it cannot be read, or is damaged.
        ConfigError: If the URL is not a run folder or cannot be used.
    """
    mirror = Mirror(local_folder(url), Store(url))
    if not download(mirror):
        raise ConfigError(f"{url} is not a run folder: {MANIFEST} is missing")
    return mirror.local


@contextlib.contextmanager
def writing(run: str | Path | None) -> Iterator[tuple[Path | None, Sequence[Guard]]]:
    """Gives the local folder of a run that is about to be written; a remote one is uploaded in the end.

    Yields:
        The folder, None where the command chooses it, and what has to run beside the run.

    Raises:
        RunBusyError: If another process writes to the remote folder.
        RemoteError: If it cannot be read, or at the end not be written.
        ConfigError: If the URL cannot be used.
    """
    if run is None or not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://.", url := str(run)):
        yield None if run is None else Path(run), ()
        return
    every = upload_seconds()
    mirror = Mirror(local_folder(url), Store(url))
    busy = threading.Lock()

    def upload(look: bool) -> None:
        # A thread of `keep` may still upload when the run has ended.
        with busy:
            lease.renew()
            if not (mirror.local / MANIFEST).exists():
                return  # no manifest yet, or the local folder was deleted: the uploaded files stay a run
            if look:
                mirror.look()
            mirror.upload()

    async def keep() -> None:
        """Uploads at intervals; the next upload makes up for one that fails."""
        look = True
        while True:
            try:
                await in_thread(partial(upload, look), "upload")
                look = False
            except RemoteError as error:
                look = True  # a failed write may have succeeded all the same: parts are never duplicated
                print(f"not uploaded yet, the run goes on: {error}", file=sys.stderr)
            await asyncio.sleep(every)

    def finish() -> None:
        """Uploads the rest, and makes sure that the remote folder is complete."""
        try:
            if (mirror.local / MANIFEST).exists():
                upload(look=True)
        except RemoteError as error:
            raise RemoteError(
                f"not all of the run is uploaded: {error}; all of it is in {mirror.local}: "
                "run the same command on this machine again to upload it"
            ) from error

    with leased(mirror.store, every) as lease:
        with stoppable():
            download(mirror)
        try:
            yield mirror.local, (keep,)
        except (EngineError, RunLogError, ManifestError) as error:
            if grace.ending() or isinstance(error, StoppedError):
                grace.begin()
            # The run's own error is raised; the same command uploads the rest when it runs again.
            with contextlib.suppress(RunLogError), grace.heard():
                finish()
            raise
        except (KeyboardInterrupt, asyncio.CancelledError):
            grace.begin()
            raise
        if grace.ending():  # the signal came as the run ended
            grace.begin()
        with grace.heard():
            finish()


@contextlib.contextmanager
def leased(store: Store, every: float) -> Iterator[Lease]:
    """Holds a remote folder that is written every so many seconds, and releases it in the end.

    Raises:
        RunBusyError: If another process holds it.
        RemoteError: If it cannot be reached.
        StoppedError: If Ctrl-C or SIGTERM came meanwhile.
    """
    lease: Lease | None = None
    try:
        with stoppable():
            lease = Lease(store, max(180.0, 3 * every))
        yield lease
    finally:
        if lease:
            with contextlib.suppress(RemoteError), grace.heard():
                lease.release()


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM end calls to a bucket at once.

    Raises:
        StoppedError: If one came.
    """
    with grace.heard(at_once=True) as signalled:
        try:
            yield
        except RemoteError:
            if not signalled.is_set():
                raise
    if signalled.is_set():
        raise StoppedError("stopped; run the same command again")


def download(mirror: Mirror) -> bool:
    """Fetches the remote run into the local folder, if one exists; other answers are moved aside."""
    if MANIFEST not in mirror.store.names(""):
        return False
    if (mirror.local / MANIFEST).exists():
        if mirror.follows():
            return True
        aside = next(
            path for number in range(1, 10_000) if not (path := Path(f"{mirror.local}.superseded{number}")).exists()
        )
        mirror.local.rename(aside)
        print(f"{mirror.store.url} holds other answers than this machine's copy, now in {aside}", file=sys.stderr)
    mirror.fetch()
    return True


def local_folder(url: str) -> Path:
    """Returns the folder in which a remote run is kept here."""
    url = url.rstrip("/")
    name = re.sub(r"[^\w.+-]", "_", url.rpartition("/")[2])
    return Path("runs") / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def upload_seconds() -> float:
    """Returns the seconds between two uploads.

    Raises:
        ConfigError: If the environment names none.
    """
    word = os.environ.get(SECONDS, "60")
    with contextlib.suppress(ValueError):
        if 0 < float(word) < 86_400:
            return float(word)
    raise ConfigError(f"{SECONDS}={word}: give seconds, more than 0 and less than a day")
