"""A run folder as immutable parts: additions are uploaded as objects and fetched back bit for bit.

responses/START-END-SHA256.jsonl   whole lines of responses.jsonl, from byte START to END
verdicts/START-END-SHA256.jsonl    the same of verdicts.jsonl
images/SHA256                      an image
manifest.json, results.json, report.html, against.json, beyond.json, share.json

A local run folder that was copied there by other means has whole logs in place of parts: it is read as well, and once a
run goes on there its logs are uploaded as parts, which count from then on.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from orchestrator.run_folder.files import IMAGES, MANIFEST, PART, RESPONSES, RESULTS, VERDICTS
from orchestrator.run_folder.lines import DamagedLine, verify
from orchestrator.run_folder.remote.lease import WRITER, is_live
from orchestrator.run_folder.remote.store import RemoteError, Store
from orchestrator.run_folder.scanning import damaged

SMALL = (MANIFEST, *PART, RESULTS, "report.html")
_PART_BYTES = 16 << 20
_CONCURRENT = 32
_PART = re.compile(r"(\d{15})-(\d{15})-([0-9a-f]{64})\.jsonl")
_IMAGE = re.compile(r"[0-9a-f]{64}")
T = TypeVar("T")


class Part(NamedTuple):
    """Some whole lines of a log."""

    start: int
    end: int
    sha256: str

    def path(self, log: str) -> str:
        """Returns the name of its object."""
        return f"{_folder(log)}/{self.start:015d}-{self.end:015d}-{self.sha256}.jsonl"


class Mirror:
    """A local run folder and its remote copy.

    Args:
        local: The local folder; it may be empty.
        store: The remote one.
    """

    def __init__(self, local: Path, store: Store) -> None:
        self.local, self.store = local, store
        self._images: set[str] = set()
        self._small: dict[str, bytes] = {}
        self._ends = dict.fromkeys((RESPONSES, VERDICTS), 0)

    def follows(self) -> bool:
        """Returns whether the local folder holds all that the remote one does, and no other answers."""
        logs = {log: self._parts(log) for log in self._ends}
        single = self._single(logs)
        return all(self._begins_whole(log) if log in single else _holds(self.local / log, logs[log]) for log in logs)

    def fetch(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> None:
        """Makes the local folder equal to the remote one; images and lines that it has already stay.

        Args:
            progress: Called with the bytes fetched and the total, first before anything is fetched.

        Raises:
            RemoteError: If it cannot be read, or parts are missing or damaged.
        """
        images, logs = self.store.names(IMAGES), {log: self._parts(log) for log in self._ends}
        single = self._single(logs)
        total = sum((*images.values(), *single.values()))
        total += sum(part.end - part.start for parts in logs.values() for part in parts)
        progress(done := 0, total)
        (self.local / IMAGES).mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(_CONCURRENT) as pool:
            for size, _ in zip(images.values(), pool.map(self._fetch_image, images), strict=True):
                progress(done := done + size, total)
        for log, parts in logs.items():
            path = self.local / log
            if log in single:
                self.store.download(log, path)
                progress(done := done + single[log], total)
                continue
            held = next((count for count, part in enumerate(parts, 1) if part.end == _size(path)), 0)
            if not _holds(path, parts[:held]):
                held = 0
            if not held:
                path.unlink(missing_ok=True)  # readers that follow the old file notice the new one
            with path.open("ab") as file:
                for number, part in enumerate(parts):
                    if number >= held:
                        file.write(self._get(part.path(log), part.sha256))
                    progress(done := done + part.end - part.start, total)
        # The manifest last: without it the folder is fetched again.
        for name in reversed(SMALL):
            data = self.store.get(name)
            if data is None:
                (self.local / name).unlink(missing_ok=True)
            else:
                (self.local / name).write_bytes(data)

    def look(self) -> None:
        """Lists the uploaded parts, so that `upload` adds the missing ones, and new verdicts replace the old.

        Raises:
            RemoteError: If it cannot be read, or holds other answers than the local folder.
        """
        for log in self._ends:
            parts = self._parts(log)
            if not _holds(self.local / log, parts):
                if log == RESPONSES:
                    raise RemoteError(
                        f"{self.store.url} holds other answers than {self.local}: two processes wrote to it"
                    )
                while parts:
                    self.store.delete(parts.pop().path(log))
            self._ends[log] = parts[-1].end if parts else 0
        self._images.update(self.store.names(IMAGES))
        self._small.clear()

    def upload(self) -> None:
        """Uploads additions: images before the answers that show them, answers before their verdicts.

        Raises:
            RemoteError: If an object cannot be written; the next call uploads the missing ones.
        """
        ends = {log: _size(self.local / log) for log in (VERDICTS, RESPONSES)}
        self._put_small(MANIFEST)
        if (self.local / IMAGES).is_dir():
            names = {path.name for path in (self.local / IMAGES).iterdir() if _IMAGE.fullmatch(path.name)}
            _concurrently(self._put_image, names - self._images)
        for log in self._ends:
            self._put_lines(log, ends[log])
        for name in SMALL:
            self._put_small(name)

    def _parts(self, log: str) -> list[Part]:
        """Returns the parts of a log in their order."""
        folder = f"{self.store.url}/{_folder(log)}"
        parts = []
        for name, size in self.store.names(_folder(log)).items():
            match = _PART.fullmatch(name)
            if not match or int(match[2]) - int(match[1]) != size:
                raise RemoteError(f"{folder}/{name} is damaged or none of a run's parts")
            parts.append(Part(int(match[1]), int(match[2]), match[3]))
        parts.sort()
        end = 0
        for part in parts:
            if part.start != end:
                problem = "missing" if part.start > end else "there twice: two processes wrote to it"
                raise RemoteError(f"{folder}: what stands at byte {min(end, part.start):,} is {problem}")
            end = part.end
        return parts

    def _single(self, logs: Mapping[str, list[Part]]) -> dict[str, int]:
        """Returns the bytes of each remote log that is one object and not in parts."""
        sizes = self.store.names("")
        return {log: sizes[log] for log, parts in logs.items() if log in sizes and not parts}

    def _begins_whole(self, log: str) -> bool:
        """Returns whether the local log begins with a remote one that is one object."""
        there = self.local / f"{log}.there"
        self.store.download(log, there)
        try:
            with there.open("rb") as file, (self.local / log).open("rb") as local:
                return all(local.read(len(data)) == data for data in iter(lambda: file.read(1 << 20), b""))
        except FileNotFoundError:
            return False
        finally:
            there.unlink(missing_ok=True)

    def _get(self, name: str, sha256: str) -> bytes:
        data = self.store.get(name)
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            raise RemoteError(f"{self.store.url}/{name} is damaged: its content is not what its name says")
        return data

    def _fetch_image(self, name: str) -> None:
        path = self.local / IMAGES / name
        if not (_IMAGE.fullmatch(name) and path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == name):
            path.write_bytes(self._get(f"{IMAGES}/{name}", name))

    def _put_image(self, name: str) -> None:
        data = (self.local / IMAGES / name).read_bytes()
        # Otherwise it is being written: no answer shows it yet.
        if hashlib.sha256(data).hexdigest() == name:
            self.store.put(f"{IMAGES}/{name}", data)
            self._images.add(name)

    def _put_lines(self, log: str, end: int) -> None:
        """Uploads the whole lines up to a byte.

        Raises:
            RemoteError: If something cannot be written, or a line is damaged: once there, it could not be deleted here.
        """
        while (start := self._ends[log]) < end:
            with (self.local / log).open("rb") as file:
                file.seek(start)
                data = file.read(min(_PART_BYTES, end - start))
                if start + len(data) < end:
                    data += file.readline()
            data = data[: data.rfind(b"\n") + 1]
            if not data:
                return
            _verify(self.local / log, start, data)
            part = Part(start, start + len(data), hashlib.sha256(data).hexdigest())
            self.store.put(part.path(log), data)
            self._ends[log] = part.end

    def _put_small(self, name: str) -> None:
        try:
            data = (self.local / name).read_bytes()
        except FileNotFoundError:  # results are taken away when their run is called again
            data = b""
        digest = hashlib.sha256(data).digest()
        if self._small.get(name) == digest:
            return
        if data:
            self.store.put(name, data)
        else:
            self.store.delete(name)
        self._small[name] = digest


class Copy:
    """A local copy of a run folder that is only read: its small files are kept fresh, its lines and images on request.

    Args:
        local: The local folder.
        store: The remote one.
    """

    def __init__(self, local: Path, store: Store) -> None:
        self._mirror = Mirror(local, store)
        self._versions: dict[str, str] = {}
        self._writer: bytes | None = None

    def update(self, versions: Mapping[str, str]) -> None:
        """Gets manifest, results and the writer's name if they changed since the last call.

        Raises:
            RemoteError: If they cannot be read.
        """
        for name in (MANIFEST, RESULTS, WRITER):
            if self._versions.get(name) == versions.get(name):
                continue
            data = self._mirror.store.get(name) if name in versions else None
            if name == WRITER:
                self._writer = data
            elif data is None:
                (self._mirror.local / name).unlink(missing_ok=True)
            else:
                (self._mirror.local / name).write_bytes(data)
        self._versions = dict(versions)

    def is_written(self) -> bool:
        """Returns whether a process writes to the remote folder, by its lease."""
        return is_live(self._writer)

    def fetch(self, progress: Callable[[int, int], None]) -> None:
        """Gets the whole folder, as `Mirror.fetch` does."""
        self._mirror.fetch(progress)

    def clear(self) -> None:
        """Removes all but the small files."""
        for path in self._mirror.local.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in SMALL:
                path.unlink()


def _folder(log: str) -> str:
    return log.removesuffix(".jsonl")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _holds(path: Path, parts: list[Part]) -> bool:
    """Returns whether a local log begins with these parts."""
    if not parts:
        return True
    if _size(path) < parts[-1].end:
        return False
    with path.open("rb") as file:
        return all(hashlib.sha256(file.read(part.end - part.start)).hexdigest() == part.sha256 for part in parts)


def _verify(path: Path, start: int, data: bytes) -> None:
    for line in data.splitlines(keepends=True):
        try:
            verify(line)
        except DamagedLine as error:
            raise RemoteError(str(damaged(path, start, error))) from None
        start += len(line)


def _concurrently(work: Callable[[T], None], items: Iterable[T]) -> None:
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        deque(pool.map(work, items), maxlen=0)
