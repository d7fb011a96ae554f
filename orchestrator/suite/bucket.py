"""A suite's folder in a bucket: a local folder while the suite runs, uploaded as it grows, fetched where it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from lyncean.errors import UserError
from lyncean.rpc.waits import in_thread
from orchestrator.errors import StoppedError
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.remote import grace
from orchestrator.run_folder.remote.lease import Lease
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.session import Guard, download, leased, local_folder, stoppable, upload_seconds
from orchestrator.run_folder.remote.store import RemoteError, Store
from orchestrator.suite import drift, record as records, training

SMALL = (
    drift.FILE, *(f"leaderboard.{kind}" for kind in ("json", "html", "csv", "md")), training.PAGE, records.FILE,
)  # fmt: skip
"""Files of a suite's folder that are whole objects; the record last."""

_ASIDE = re.compile(r"\.superseded\d+$")
"""Names of folders that `download` moved aside."""


def folder_of(run: str) -> Path:
    """Returns the local folder of a suite whose folder is at a path or a URL."""
    return local_folder(run) if "://" in run else Path(run)


@contextlib.contextmanager
def kept(run: str) -> Iterator[tuple[Path, Sequence[Guard]]]:
    """Gives the local folder of a suite that is about to be run; that of a URL is uploaded meanwhile and at its end.

    Yields:
        The folder, and what has to run beside the suite: it ends the suite where another process takes the folder over.

    Raises:
        RunBusyError: If another process writes to the remote folder.
        RemoteError: If it cannot be read, or at the end not be written.
        ConfigError: If the URL cannot be used.
    """
    if "://" not in run:
        yield folder_of(run), ()
        return
    every = upload_seconds()
    store = Store(run)
    with leased(store, every) as lease:
        with stoppable():
            copy = _Copy(folder_of(run), store, lease, every)
            copy.fetch()
        try:
            yield copy.local, (copy.keep,)
        finally:
            error = sys.exc_info()[1]
            if grace.ending() or isinstance(error, (StoppedError, KeyboardInterrupt)):
                grace.begin()
            # What ended the suite is said; what of it was not uploaded is, once the command runs again.
            hidden = (RunLogError,) if isinstance(error, UserError) else ()
            with contextlib.suppress(*hidden), grace.heard():
                copy.finish()


class _Copy:
    def __init__(self, local: Path, store: Store, lease: Lease, every: float) -> None:
        self.local = local
        self._store, self._lease, self._every = store, lease, every
        self._busy = threading.Lock()
        self._mirrors: dict[str, Mirror] = {}
        self._put: dict[str, bytes] = {}

    def fetch(self) -> None:
        """Fetches the remote folder into the local one; cells that exist locally alone stay."""
        objects, folders = self._store.listing("")
        for name in folders:
            if name not in (".", "..") and Path(name).name == name:
                download(Mirror(self.local / name, self._store.below(name)))
        self.local.mkdir(parents=True, exist_ok=True)
        here = records.read(self.local).cells if (self.local / records.FILE).exists() else []
        for name in SMALL:
            if name in objects and (data := self._store.get(name)) is not None:
                (self.local / name).write_bytes(data)
        if here and records.FILE in objects:
            record = records.read(self.local)
            known = {cell.name for cell in record.cells}
            record.cells += [cell for cell in here if cell.name not in known]  # a process was killed before its upload
            record.save(self.local)

    async def keep(self) -> None:
        """Uploads at intervals; the next upload makes up for one that fails.

        Raises:
            RunBusyError: If another process has taken the remote folder over.
        """
        while True:
            await asyncio.sleep(self._every)
            try:
                await in_thread(self._upload, "upload")
            except (RemoteError, OSError) as error:
                print(f"not uploaded yet, the suite goes on: {error}", file=sys.stderr)

    def finish(self) -> None:
        """Uploads the rest, and makes sure that the remote folder is complete."""
        try:
            self._upload(again=True)
        except RemoteError as error:
            raise RemoteError(
                f"not all of the suite is uploaded: {error}; all of it is in {self.local}: "
                "run the same command on this machine again to upload it"
            ) from error

    def _upload(self, *, again: bool = False) -> None:
        with self._busy:  # a thread of `keep` may still upload when the suite has ended
            if again:
                self._mirrors.clear()
                self._put.clear()
            self._upload_held()

    def _upload_held(self) -> None:
        self._lease.renew()
        # Read first: a record is not to say that a cell is complete of which less is there.
        small = {name: path.read_bytes() for name in SMALL if (path := self.local / name).is_file()}
        for path in sorted(self.local.glob(f"*/{MANIFEST}")):
            name = path.parent.name
            if _ASIDE.search(name):
                continue
            if (mirror := self._mirrors.pop(name, None)) is None:
                mirror = Mirror(path.parent, self._store.below(name))
                mirror.look()
            mirror.upload()
            self._mirrors[name] = mirror  # one that failed looks again: a part may be there whose reply was lost
        for name, data in small.items():
            if data != self._put.get(name):
                self._store.put(name, data)
                self._put[name] = data
