"""A run folder as immutable parts: what was added is uploaded whole, and fetched back bit for bit.

responses/START-END-SHA256.jsonl   whole lines of responses.jsonl, from byte START to END
verdicts/START-END-SHA256.jsonl    the same of verdicts.jsonl
images/SHA256.tar                  images that were added since the last part
images/SHA256.names                what they are called
manifest.json, results.json, report.html
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.run_folder.files import MANIFEST, RESPONSES, VERDICTS
from orchestrator.run_folder.remote.store import RemoteError, Store

SMALL = (MANIFEST, "results.json", "report.html")
_PART_BYTES = 16 << 20
_PART = re.compile(r"(\d{15})-(\d{15})-([0-9a-f]{64})\.jsonl")
_IMAGE = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """Some whole lines of a log."""

    start: int
    end: int
    sha256: str

    @property
    def name(self) -> str:
        """What its object is called."""
        return f"{self.start:015d}-{self.end:015d}-{self.sha256}.jsonl"


class Mirror:
    """A local run folder and its remote copy.

    Args:
        local: The local folder; it may be empty.
        store: The remote one.
    """

    def __init__(self, local: Path, store: Store) -> None:
        self.local, self.store = local, store
        self._images: set[bytes] = set()
        self._small: dict[str, bytes] = {}
        self._ends = dict.fromkeys((RESPONSES, VERDICTS), 0)

    @property
    def there(self) -> bool:
        """Whether the remote folder holds a run."""
        return MANIFEST in self.store.names("")

    def follows(self) -> bool:
        """Returns whether the local folder holds all that the remote one does, and no other answers."""
        return all(_holds(self.local / name, self._parts(name)) for name in (RESPONSES, VERDICTS))

    def fetch(self) -> None:
        """Makes the local folder what the remote one is.

        Raises:
            RemoteError: If it cannot be read, or parts are missing or damaged.
        """
        self.local.mkdir(parents=True, exist_ok=True)
        images = self.local / "images"
        for name, size in self.store.names("images").items():
            if not name.endswith(".tar"):
                continue
            data = self._get(f"images/{name}", size, name.removesuffix(".tar"))
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    file = tar.extractfile(member)
                    if file is None or not _IMAGE.fullmatch(member.name):
                        raise RemoteError(f"{self.store.url}/images/{name} is none of a run's parts")
                    images.mkdir(exist_ok=True)
                    (images / member.name).write_bytes(file.read())
        for name in (RESPONSES, VERDICTS):
            partial = self.local / f".{name}.partial"
            with partial.open("wb") as log:
                for part in self._parts(name):
                    log.write(self._get(f"{_folder(name)}/{part.name}", part.end - part.start, part.sha256))
            partial.replace(self.local / name)
        for name in SMALL:
            data_or_none = self.store.get(name)
            if data_or_none is None:
                (self.local / name).unlink(missing_ok=True)
            else:
                (self.local / name).write_bytes(data_or_none)

    def look(self) -> None:
        """Looks at what is uploaded, so that `upload` adds what is missing, and verdicts written anew replace the old.

        Raises:
            RemoteError: If it cannot be read, or holds other answers than the local folder.
        """
        for name in (RESPONSES, VERDICTS):
            parts = self._parts(name)
            if not _holds(self.local / name, parts):
                if name == RESPONSES:
                    raise RemoteError(
                        f"{self.store.url} holds other answers than {self.local}: two processes wrote to it"
                    )
                for part in parts:
                    self.store.delete(f"{_folder(name)}/{part.name}")
                parts = []
            self._ends[name] = parts[-1].end if parts else 0
        for name in self.store.names("images"):
            if name.endswith(".names"):
                self._images.update(map(bytes.fromhex, (self.store.get(f"images/{name}") or b"").decode().split()))

    def upload(self) -> None:
        """Uploads what was added: images before the answers that show them, answers before their verdicts.

        Raises:
            RemoteError: If something cannot be written; what is missing is uploaded next time.
        """
        ends = {name: _whole(self.local / name) for name in (VERDICTS, RESPONSES)}
        self._small_files((MANIFEST,))
        self._new_images()
        for name in (RESPONSES, VERDICTS):
            self._new_lines(name, ends[name])
        self._small_files(SMALL)

    def _parts(self, log: str) -> list[Part]:
        folder = _folder(log)
        found = []
        for name, size in self.store.names(folder).items():
            match = _PART.fullmatch(name)
            if not match or int(match[2]) - int(match[1]) != size:
                raise RemoteError(f"{self.store.url}/{folder}/{name} is damaged or none of a run's parts")
            found.append(Part(int(match[1]), int(match[2]), match[3]))
        found.sort()
        end = 0
        for part in found:
            if part.start != end:
                what = "missing" if part.start > end else "there twice: two processes wrote to it"
                raise RemoteError(f"{self.store.url}/{folder}: what stands at byte {min(end, part.start):,} is {what}")
            end = part.end
        return found

    def _get(self, name: str, size: int, sha256: str) -> bytes:
        data = self.store.get(name)
        if data is None or len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
            raise RemoteError(f"{self.store.url}/{name} is damaged: its content is not what its name says")
        return data

    def _new_lines(self, log: str, end: int) -> None:
        for data in _chunks(self.local / log, self._ends[log], end):
            part = Part(self._ends[log], self._ends[log] + len(data), hashlib.sha256(data).hexdigest())
            self.store.put(f"{_folder(log)}/{part.name}", data)
            self._ends[log] = part.end

    def _new_images(self) -> None:
        folder = self.local / "images"
        if not folder.is_dir():
            return
        names = sorted(image.name for image in folder.iterdir() if _IMAGE.fullmatch(image.name))
        fresh = [name for name in names if bytes.fromhex(name) not in self._images]
        held: dict[str, bytes] = {}
        for name in fresh:
            data = (folder / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != name:
                continue  # it is being written: no answer shows it yet
            held[name] = data
            if sum(map(len, held.values())) >= _PART_BYTES:
                self._put_images(held)
                held = {}
        if held:
            self._put_images(held)

    def _put_images(self, images: dict[str, bytes]) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, content in images.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        data = buffer.getvalue()
        name = f"images/{hashlib.sha256(data).hexdigest()}"
        self.store.put(f"{name}.tar", data)
        self.store.put(f"{name}.names", "\n".join(images).encode())
        self._images.update(map(bytes.fromhex, images))

    def _small_files(self, names: tuple[str, ...]) -> None:
        for name in names:
            path = self.local / name
            if not path.exists():
                if self._small.pop(name, b"") or name in self.store.names(""):
                    self.store.delete(name)
                continue
            data = path.read_bytes()
            digest = hashlib.sha256(data).digest()
            if self._small.get(name) != digest:
                self.store.put(name, data)
                self._small[name] = digest


def _folder(log: str) -> str:
    return log.removesuffix(".jsonl")


def _whole(path: Path) -> int:
    """Returns where the last whole line of a log ends."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        at = file.seek(0, io.SEEK_END)
        while at > 0:
            start = max(0, at - _CHUNK)
            file.seek(start)
            newline = file.read(at - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            at = start
    return 0


def _chunks(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yields the lines between two places, some at a time."""
    if start >= end:
        return
    with path.open("rb") as file:
        file.seek(start)
        while start < end:
            data = file.read(min(_PART_BYTES, end - start))
            if start + len(data) < end:
                data += file.readline()
            start += len(data)
            yield data


def _holds(path: Path, parts: list[Part]) -> bool:
    """Whether a local log begins with these parts."""
    if not parts:
        return True
    if not path.exists() or path.stat().st_size < parts[-1].end:
        return False
    with path.open("rb") as file:
        return all(hashlib.sha256(file.read(part.end - part.start)).hexdigest() == part.sha256 for part in parts)
