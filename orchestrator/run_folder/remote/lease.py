"""One writer at a time: an object that names the writer, renewed while it writes."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from orchestrator.run_folder.errors import RunBusyError
from orchestrator.run_folder.remote.store import RemoteError, Store

if TYPE_CHECKING:
    from obstore import UpdateVersion

WRITER = "writer.json"
_TRIES = 5
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


class Holder(msgspec.Struct):
    """A writer: a process and, if the system tells them, its boot and the namespace of its pid."""

    id: str = ""
    host: str = "another machine"
    boot_id: str = ""
    pid_namespace: int = 0
    pid: int = 0
    renewed: float = 0.0
    seconds: float = 0.0


class Lease:
    """Holds a remote run folder. Each write of the object replaces the version that this process knows, or fails.

    Args:
        store: The folder.
        seconds: Duration for which an unrenewed lease is respected.

    Raises:
        RunBusyError: If another process holds it.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._holder = _this_process(seconds)
        self._version: UpdateVersion | None = None
        self.renew(take=True)

    def renew(self, *, take: bool = False) -> None:
        """Renews the lease of this process.

        Args:
            take: Whether to take the folder over from a process that is gone.

        Raises:
            RunBusyError: If another process holds it.
        """
        self._holder.renewed = time.time()
        for _ in range(_TRIES):
            if written := self._store.put_version(WRITER, msgspec.json.encode(self._holder), self._version):
                self._version = written
                return
            # An own write whose reply was lost is met here too.
            data, version = self._store.get_version(WRITER)
            other = _decoded(data)
            if other.id != self._holder.id and not (take and _is_over(other, self._holder)):
                raise RunBusyError(
                    f"{self._store.url} is being written by another process ({other.host}, pid "
                    f"{other.pid or 'unknown'}): wait for it; where that process is gone, the folder is free "
                    f"{other.seconds:.0f} s after its last sign of life"
                )
            self._version = version
        raise RemoteError(f"{self._store.url} cannot be held: versions of {WRITER} change by themselves")

    def release(self) -> None:
        """Releases the folder, unless another process has taken it over."""
        self._store.put_version(WRITER, b"{}", self._version)


def is_live(data: bytes | None) -> bool:
    """Returns whether the content of `writer.json` names a process that still writes."""
    other = _decoded(data)
    return bool(other.id) and not _is_over(other, _this_process(0))


def _this_process(seconds: float) -> Holder:
    holder = Holder(secrets.token_hex(8), socket.gethostname(), pid=os.getpid(), seconds=seconds)
    with contextlib.suppress(OSError):
        holder.boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
        holder.pid_namespace = _PROCESSES.stat().st_ino
    return holder


def _is_over(other: Holder, this: Holder) -> bool:
    """Returns whether a lease's holder is gone: not renewed for long, or a process of this machine that has ended."""
    if time.time() - other.renewed > other.seconds:
        return True
    # Many machines and containers share a name.
    here = [(holder.host, holder.boot_id, holder.pid_namespace) for holder in (this, other)]
    if not other.boot_id or here[0] != here[1]:
        return False
    try:
        os.kill(other.pid, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def _decoded(data: bytes | None) -> Holder:
    try:
        return msgspec.json.decode(data or b"{}", type=Holder)
    except msgspec.DecodeError:
        return Holder()
