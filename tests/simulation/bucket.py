"""An object store in a world: the run folder is behind a URL; calls are slow, silent, refused or lose replies."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.run_folder.remote import RemoteError, grace, lease as lease_module, mirror as mirror_module, session
from orchestrator.run_folder.remote.lease import Holder
from simulation.loop import EPOCH, Loop, replaced
from simulation.network import BESIDE

URL = "s3://bucket/run"
_TIMEOUT = 120.0
"""Seconds after which the store's client gives a call up (`store._CLIENT`)."""
_EVERY = 2.0
"""Seconds between two uploads."""


class Bucket:
    """The objects of one run folder, and what goes wrong with them.

    Args:
        draw: The seed's draws.
        local: The run folder here.
        dead: Whether the process has died: it calls nothing more.

    Attributes:
        objects: What is there, with the number of its version.
        waited: Seconds of a command that went by in calls that block it.
        failing: Share of calls that fail without having done anything.
        lost: Share of writes that are done and whose reply is lost.
        wrong: Share of reads of what is named by its hash that return other bytes.
        seconds: How long a call takes.
        silent: Whether no call is answered.
        deleted: Whether the user deleted a line, or one has a wrong bit: verdicts may stand without it.
    """

    def __init__(self, draw: random.Random, local: Path, dead: Callable[[], bool]) -> None:
        self.draw, self.local, self._dead = draw, local, dead
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.deleted = False
        self._versions = self._machine = self._process = 0
        self._then, self._loop, self._beside = EPOCH, Loop(), False
        self.calm()

    def calm(self) -> None:
        """Ends all that goes wrong."""
        self.failing = self.lost = self.wrong = self.seconds = self.waited = 0.0
        self.silent = False

    def disturb(self, loop: Loop, trace: Callable[[str], None]) -> None:
        """Draws what goes wrong in a command."""
        self.failing = self.draw.choice([0.0, 0.0, 0.05, 0.3])
        self.lost = self.draw.choice([0.0, 0.0, 0.1, 0.3])
        self.wrong = self.draw.choice([0.0, 0.0, 0.1])
        self.seconds = self.draw.choice([0.0, 0.05, 1.0])

        def fall_silent() -> None:
            trace(f"{loop.time():.2f}: the bucket is silent")
            self.silent = True
            if self.draw.random() < 0.7:
                loop.call_later(self.draw.uniform(0.1, 60.0), setattr, self, "silent", False)

        if self.draw.random() < 0.3:
            loop.call_later(self.draw.uniform(0.0, 12.0), fall_silent)

    def move(self) -> None:
        """Has the next command run on another machine."""
        self._machine += 1
        shutil.rmtree(self.local, ignore_errors=True)

    def used(self, loop: Loop) -> AbstractContextManager[None]:
        """Has a command use these objects; between two commands some minutes pass."""
        self._loop, self._process = loop, self._process + 1
        self._then += self.draw.uniform(1.0, 400.0)
        grace.renew()
        return replaced(
            (session, "Store", lambda _url: _Objects(self)),
            (session, "local_folder", lambda _url: self.local),
            (session, "upload_seconds", lambda: _EVERY),
            (session, "in_thread", self._in_thread),
            (session, "sys", SimpleNamespace(stderr=io.StringIO())),
            (mirror_module, "ThreadPoolExecutor", _InOrder),
            (lease_module, "_this_process", self._holder),
            (lease_module, "time", SimpleNamespace(time=lambda: self._then + loop.time())),
            (lease_module, "os", SimpleNamespace(kill=self._signal)),
        )

    def ended(self) -> None:
        """Notes when the command ended."""
        self._then += self._loop.time()

    def _holder(self, seconds: float) -> Holder:
        name = f"{self.draw.getrandbits(60):x}"
        return Holder(name, "world", f"boot {self._machine}", 1, pid=self._process, seconds=seconds)

    def _signal(self, pid: int, _number: int) -> None:
        if pid != self._process:
            raise ProcessLookupError

    async def _in_thread(self, work: Callable[[], Any], _name: str) -> Any:
        """Uploads in place of a thread, as slow as the store is."""
        await asyncio.sleep(_TIMEOUT if self.silent else self.seconds)
        self._beside = True
        try:
            return work()
        finally:
            self._beside = False

    # Calls of the store

    def call(self) -> None:
        """Begins a call.

        Raises:
            RemoteError: If it fails.
        """
        if self._dead():
            raise RemoteError("the process is dead")
        if not self._beside and not BESIDE.get():  # what blocks another process does not block this one
            whole = _TIMEOUT if self.silent else self.seconds
            seconds = min(whole, max(0.0, grace._until - self._loop.now))
            self._loop.now += seconds
            self.waited += seconds
            if seconds < whole:
                raise RemoteError(f"{URL} cannot be reached (no answer, and the command was stopped)")
        if self.silent:
            raise RemoteError(f"{URL} cannot be reached (timed out)")
        if self.draw.random() < self.failing:
            raise RemoteError(f"{URL} cannot be reached (503)")

    def write(self, name: str, data: bytes | None) -> int:
        """Writes an object, or removes it, and returns its version; the reply may be lost."""
        self._versions += 1
        if data is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = data, self._versions
        if self.draw.random() < self.lost:
            raise RemoteError(f"{URL} cannot be reached (connection reset)")
        return self._versions

    def read(self, name: str) -> tuple[bytes | None, int]:
        """Returns an object and its version; what its name holds the hash of is at times another."""
        data, version = self.objects.get(name, (None, 0))
        if data and "/" in name and self.draw.random() < self.wrong:
            data = data[: len(data) // 2]
        return data, version

    # What must be true of what is there

    def log(self, name: str) -> bytes:
        """Returns the log that is there in parts.

        Raises:
            AssertionError: If a part is missing, or is there twice.
        """
        whole = b""
        for path in sorted(self.objects):
            if path.startswith(f"{name}/"):
                start, end, digest = path.partition("/")[2].removesuffix(".jsonl").split("-")
                data = self.objects[path][0]
                assert int(start) == len(whole), f"{path} does not follow byte {len(whole):,}"
                assert hashlib.sha256(data).hexdigest() == digest, path
                assert int(end) - int(start) == len(data), path
                whole += data
        return whole

    def check(self, complete: bool) -> str:
        """Returns what is wrong with what is there; "" if nothing is.

        Args:
            complete: Whether the last command ended with 0.
        """
        try:
            responses, verdicts = self.log("responses"), self.log("verdicts")
        except AssertionError as error:
            return str(error)
        answers = {line.rpartition(b'"crc32":"')[2][:8] for line in responses.splitlines()}
        named = {line.rpartition(b'"answer":"')[2][:8] for line in verdicts.splitlines()}
        if named - answers and not self.deleted:
            return f"{len(named - answers)} verdicts are there without the answers that they name"
        shown = set(_images(json.loads(line) for line in responses.splitlines()))
        if missing := {name for name in shown if f"images/{name}" not in self.objects}:
            return f"{len(missing)} images are not there, and answers that show them are"
        if not complete:
            return ""
        there = {"responses.jsonl": responses, "verdicts.jsonl": verdicts}
        there |= {name: self.objects.get(name, (b"", 0))[0] for name in ("manifest.json", "results.json")}
        other = [name for name, data in there.items() if (self.local / name).read_bytes() != data]
        return f"the command ended with 0, and {', '.join(other)} there is another than here" if other else ""


def _images(lines: Iterable[Any]) -> Iterator[str]:
    """Yields the hashes of the images that stand anywhere in lines of a log."""
    for line in lines:
        if isinstance(line, dict):
            if isinstance(name := line.get("sha256"), str):
                yield name
            yield from _images(line.values())
        elif isinstance(line, list):
            yield from _images(line)


class _InOrder:
    """Stands for a pool of threads: works in the order of the names."""

    def __init__(self, _threads: int) -> None:
        pass

    def __enter__(self) -> _InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(work, sorted(items) if isinstance(items, set) else items)


class _Objects:
    """Stands for `store.Store`."""

    url = URL

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def names(self, folder: str) -> dict[str, int]:
        self._bucket.call()
        found = {}
        for path in sorted(self._bucket.objects):
            place, _, name = path.rpartition("/")
            if place == folder:
                found[name] = len(self._bucket.objects[path][0])
        return found

    def get(self, name: str) -> bytes | None:
        return self.get_version(name)[0]

    def get_version(self, name: str) -> tuple[bytes | None, int]:
        self._bucket.call()
        return self._bucket.read(name)

    def download(self, name: str, path: Path) -> None:
        path.write_bytes(self.get(name) or b"")

    def put(self, name: str, data: bytes) -> None:
        self._bucket.call()
        self._bucket.write(name, data)

    def put_version(self, name: str, data: bytes, version: int | None) -> int | None:
        self._bucket.call()
        if self._bucket.objects.get(name, (b"", 0))[1] != (version or 0):
            return None
        return self._bucket.write(name, data)

    def delete(self, name: str) -> None:
        self._bucket.call()
        self._bucket.write(name, None)
