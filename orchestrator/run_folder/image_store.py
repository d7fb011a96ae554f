"""The run folder's images: each stored once, under its own hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from orchestrator.run_folder.durable import sync_files

_KNOWN_LIMIT = 20_000
"""Hashes of stored images that are remembered, in 2 MB, so that an image is not looked for on disk again."""


class ImageStore:
    """Content-addressed files. Safe from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}/"
        self._known: set[bytes] = set()
        self._unsynced: list[str] = []

    def put(self, data: bytes, check: Callable[[bytes], None] | None = None) -> str:
        """Stores a file's bytes unless they are there, and returns their sha256 in hex.

        Args:
            data: The bytes.
            check: Called with them once, before they are stored; its errors are raised.

        Raises:
            OSError: If they cannot be written.
        """
        sha = hashlib.sha256(data)
        name = sha.hexdigest()
        if sha.digest() not in self._known:
            if check:
                check(data)
            self._write(self._folder + name, data)
            if len(self._known) >= _KNOWN_LIMIT:
                self._known.clear()
            self._known.add(sha.digest())
        return name

    def get(self, sha256: str) -> bytes:
        """Returns a stored file's bytes.

        Raises:
            OSError: If it is missing.
            ValueError: If it holds other bytes than were stored, for example after a power cut.
        """
        data = Path(self._folder + sha256).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"images/{sha256} is damaged")
        return data

    def _write(self, path: str, data: bytes) -> None:
        """Writes a file once. It replaces other bytes under its name, left by a killed process or a power cut."""
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            if Path(path).stat().st_size == len(data) and Path(path).read_bytes() == data:
                return
            file = os.open(path, os.O_WRONLY | os.O_TRUNC)
        except FileNotFoundError:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._write(path, data)
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)
        self._unsynced.append(path)

    def sync(self) -> None:
        """Makes the stored files survive a power cut. May block for long: call it in a thread.

        Raises:
            OSError: If it cannot be written.
        """
        if not self._unsynced:
            return
        paths = []
        while self._unsynced:  # others may be stored meanwhile
            paths.append(self._unsynced.pop())
        sync_files(paths, self._folder)
