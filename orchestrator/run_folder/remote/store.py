"""Objects under one URL, through fsspec, with one kind of error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

import fsspec

from orchestrator.errors import ConfigError
from orchestrator.run_folder.log import RunWriteError

_PACKAGES = {"s3": "pip install 'lyncean[s3]'", "gs": "pip install gcsfs", "gcs": "pip install gcsfs"}


class RemoteError(RunWriteError):
    """What is remote cannot be read or written now. What is local is safe: run again later."""


class Store:
    """Whole objects below a URL.

    Args:
        url: For example `s3://bucket/runs/first`. Credentials come from where its package looks for them.

    Raises:
        ConfigError: If the URL cannot be used as it is.
    """

    def __init__(self, url: str) -> None:
        scheme = urlsplit(url).scheme
        if "@" in urlsplit(url).netloc:
            raise ConfigError("--run: leave credentials out of the URL; its package reads them from the environment")
        self.url = url.rstrip("/")
        try:
            self._files, self._root = fsspec.url_to_fs(self.url)
        except ImportError as error:
            raise ConfigError(f"{self.url}: {_PACKAGES.get(scheme, str(error))}") from error
        except ValueError as error:
            raise ConfigError(f"{self.url}: {error}") from error

    def names(self, folder: str) -> dict[str, int]:
        """Returns the names of the objects in a folder, and how many bytes each has."""
        with self._reported():
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._path(folder), detail=True)
            except FileNotFoundError:
                return {}
        return {one["name"].rpartition("/")[2]: int(one["size"] or 0) for one in found if one["type"] == "file"}

    def get(self, name: str) -> bytes | None:
        """Returns an object, None where there is none."""
        with self._reported():
            try:
                data: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return data

    def put(self, name: str, data: bytes) -> None:
        """Writes an object, whole."""
        with self._reported():
            self._folder_of(name)
            self._files.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Writes an object that is not there; returns False where it is.

        Raises:
            ConfigError: If the package cannot do that, and would overwrite it.
        """
        if "mode" not in signature(self._files.pipe_file).parameters:
            raise ConfigError(
                f"{self.url}: {type(self._files).__name__} (fsspec {fsspec.__version__}) would let two runs write "
                "here at once: update fsspec and the package for this address to 2024.12 or later"
            )
        with self._reported():
            self._folder_of(name)
            try:
                self._files.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
        return True

    def delete(self, name: str) -> None:
        """Removes an object, if it is there."""
        with self._reported():
            try:
                self._files.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _folder_of(self, name: str) -> None:
        # An object store has no folders; on a file system they are made.
        if "file" in self._protocols:
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    @property
    def _protocols(self) -> tuple[str, ...]:
        found: Any = self._files.protocol
        return (found,) if isinstance(found, str) else tuple(found)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each package behind fsspec raises errors of its own
            words = " ".join(str(error).split()) or type(error).__name__
            raise RemoteError(f"{self.url} cannot be reached ({words})") from error
