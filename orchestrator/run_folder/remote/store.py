"""Objects under one URL, through obstore, with one kind of error."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import re
from collections.abc import Iterator
from configparser import ConfigParser
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from orchestrator.errors import ConfigError
from orchestrator.run_folder.errors import RunWriteError
from orchestrator.run_folder.remote.grace import check, renew, within

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult, UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

_SCHEMES = ("s3", "gs", "az", "file")
_CLIENT: ClientConfig = {"allow_http": True, "timeout": timedelta(minutes=2)}
_RETRIES: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(minutes=2)}
_PROFILE = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region")
_REASONS = (
    (r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", r"\1: \2"),
    (r'"message":\s*"(.*?)"', r"\1"),
    (r"//(169\.254\.\d+\.\d+|metadata\.google\.internal)/", "no credentials found"),
    (r"(https?://[^/\s?]+).*HTTP error: (.*)", r"\1: \2"),
    (r".*", r"\g<0>"),
)
"""Shown parts of a client's message, by the first pattern that it matches."""


class RemoteError(RunWriteError):
    """The remote folder cannot be read or written now. Local files are safe: run again later."""


class Store:
    """Objects below a URL, written atomically.

    Args:
        url: For example `s3://bucket/runs/first`. Credentials come from the environment.

    Raises:
        ConfigError: If the URL cannot be used as it is.
    """

    def __init__(self, url: str) -> None:
        renew()
        self.url = url.rstrip("/")
        scheme, host, path, *_ = urlsplit(self.url)
        if "@" in host:
            raise ConfigError("--run: leave credentials out of the URL; they are read from the environment")
        if scheme not in _SCHEMES:
            raise ConfigError(f"{self.url}: give a folder or a URL of {', '.join(f'{name}://' for name in _SCHEMES)}")
        try:
            from obstore.exceptions import BaseError
            from obstore.store import LocalStore, from_url
        except ImportError as error:
            raise ConfigError(f"{self.url}: pip install 'lyncean[remote]'") from error
        self._folder = Path(host + path).resolve() if scheme == "file" else None
        self._prefix = f"{self._folder}/"[1:] if self._folder else ""
        try:
            self._objects: ObjectStore = (
                LocalStore()
                if self._folder
                else from_url(self.url, config=_aws_profile(scheme), client_options=_CLIENT, retry_config=_RETRIES)
            )
        except BaseError as error:
            raise ConfigError(f"{self.url}: {_reason(error)}") from error

    def names(self, folder: str) -> dict[str, int]:
        """Returns the names of the objects in a folder, and their sizes in bytes."""
        return {name: entry["size"] for name, entry in self.listing(folder)[0].items()}

    def listing(self, folder: str) -> tuple[dict[str, ObjectMeta], list[str]]:
        """Returns the objects in a folder by their names, and the names of the folders in it."""
        with self._reported():
            result = within(lambda: self._objects.list_with_delimiter(self._prefix + folder))
        objects = {entry["path"].rpartition("/")[2]: entry for entry in result["objects"]}
        return objects, [path.rstrip("/").rpartition("/")[2] for path in result["common_prefixes"]]

    def below(self, folder: str) -> Store:
        """Returns the store of a folder below, through the same client; its names may hold any characters."""
        if not folder:
            return self
        store = copy.copy(self)
        store.url, store._prefix = f"{self.url}/{folder}", f"{self._prefix}{folder}/"
        store._folder = self._folder and self._folder / folder
        return store

    def get(self, name: str) -> bytes | None:
        """Returns an object, None if it is missing."""
        return self.get_version(name)[0]

    def get_version(self, name: str) -> tuple[bytes | None, UpdateVersion | None]:
        """Returns an object and its version, (None, None) if it is missing."""
        with self._reported():
            try:
                return within(lambda: self._read(name))
            except FileNotFoundError:
                return None, None

    def _read(self, name: str) -> tuple[bytes, UpdateVersion]:
        response = self._objects.get(self._prefix + name)
        return response.bytes().to_bytes(), _version(response.meta)

    def part(self, name: str, start: int, length: int) -> bytes:
        """Returns a part of an object."""
        if not length:
            return b""
        with self._reported():
            return within(lambda: self._objects.get_range(self._prefix + name, start=start, length=length).to_bytes())

    def download(self, name: str, path: Path) -> None:
        """Writes an object of any size to a file, atomically."""
        part = path.with_name(f"{path.name}.part")

        def write() -> None:
            with part.open("wb") as file:
                for chunk in self._objects.get(self._prefix + name).stream():
                    file.write(chunk)

        try:
            with self._reported():
                within(write)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def put(self, name: str, data: bytes) -> None:
        """Writes an object and replaces an existing one."""
        with self._reported():
            check()
            within(lambda: self._objects.put(self._prefix + name, data))

    def put_version(self, name: str, data: bytes, version: UpdateVersion | None) -> UpdateVersion | None:
        """Replaces one version of an object, atomically.

        Args:
            name: Its name.
            data: Its new content.
            version: The version to replace; None if the object must not exist.

        Returns:
            The version written; None if another one exists, which is left unchanged.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        path = self._prefix + name
        with self._reported(), self._locked():
            try:
                if version and self._folder:
                    same = _version(self._objects.head(path)) == version
                    return _version(self._objects.put(path, data)) if same else None
                return _version(within(lambda: self._objects.put(path, data, mode=version or "create")))
            except (AlreadyExistsError, PreconditionError):
                return None
            except FileNotFoundError:
                if version:
                    return None
                raise

    def delete(self, name: str) -> None:
        """Removes an object if it exists."""
        with self._reported(), contextlib.suppress(FileNotFoundError):
            within(lambda: self._objects.delete(self._prefix + name))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds a lock on a file system, which cannot compare and replace in one step."""
        if not self._folder:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".writer.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise RemoteError(f"{self.url} cannot be reached ({_reason(error)})") from error


def _version(meta: ObjectMeta | PutResult) -> UpdateVersion:
    return cast("UpdateVersion", {name: meta[name] for name in ("e_tag", "version") if meta[name] is not None})


def _reason(error: Exception) -> str:
    """Returns an error in one line. A URL is cut to its host: it may hold a signature."""
    text = " ".join(str(error).partition("Debug source:")[0].split())
    match, reason = next((match, reason) for pattern, reason in _REASONS if (match := re.search(pattern, text)))
    return re.sub(r"(https?://[^/\s?]+)\S*", r"\1", match.expand(reason))[:300]


def _aws_profile(scheme: str) -> S3Config:
    """Returns the keys and the region of the AWS profile in use, which obstore does not read."""
    if scheme != "s3" or "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    parser = ConfigParser(interpolation=None)
    parser.read(Path.home() / ".aws" / name for name in ("config", "credentials"))
    profile = os.environ.get("AWS_PROFILE", "default")
    sections = [parser[name] for name in (f"profile {profile}", profile) if name in parser]
    return cast("S3Config", {name: section[name] for section in sections for name in _PROFILE if name in section})
