"""One writer at a time: an object that says who writes, renewed while he does."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from pathlib import Path

import msgspec

from orchestrator.run_folder.log import RunBusyError
from orchestrator.run_folder.remote.store import Store

WRITER = "writer.json"
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


class Holder(msgspec.Struct):
    """Who writes: a process, and where the system tells them, its boot and the namespace that pids are counted in."""

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
        seconds: For how long an unrenewed lease is respected.

    Raises:
        RunBusyError: If another process holds it.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._holder = Holder(secrets.token_hex(8), socket.gethostname(), pid=os.getpid(), seconds=seconds)
        with contextlib.suppress(OSError):
            self._holder.boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
            self._holder.pid_namespace = _PROCESSES.stat().st_ino
        self._version = store.put_version(WRITER, self._content(), None)
        while not self._version:
            data, version = store.get_version(WRITER)
            other = _decoded(data)
            if other.id != self._holder.id and not self._over(other):
                raise self._busy(other)
            self._version = store.put_version(WRITER, self._content(), version)

    def renew(self) -> None:
        """Says that this process still writes.

        Raises:
            RunBusyError: If another has taken the folder over meanwhile.
        """
        version = self._store.put_version(WRITER, self._content(), self._version)
        if not version:
            # A write whose reply was lost has changed the version too.
            data, version = self._store.get_version(WRITER)
            if (other := _decoded(data)).id != self._holder.id:
                raise self._busy(other)
        self._version = version

    def release(self) -> None:
        """Lets the folder go, unless another has taken it over."""
        self._store.put_version(WRITER, b"{}", self._version)

    def _content(self) -> bytes:
        self._holder.renewed = time.time()
        return msgspec.json.encode(self._holder)

    def _over(self, other: Holder) -> bool:
        """Whether who holds a lease is gone: not renewed for long, or a process that would be seen here and is not."""
        if time.time() - other.renewed > other.seconds:
            return True
        # Many machines and containers share a name.
        here = [(holder.host, holder.boot_id, holder.pid_namespace) for holder in (self._holder, other)]
        if not other.boot_id or here[0] != here[1]:
            return False
        try:
            os.kill(other.pid, 0)
        except OSError as error:
            return isinstance(error, ProcessLookupError)
        return False

    def _busy(self, other: Holder) -> RunBusyError:
        return RunBusyError(
            f"{self._store.url} is being written by another process ({other.host}, pid {other.pid or 'unknown'}): wait "
            f"for it; where that process is gone, the folder is free {other.seconds:.0f} s after its last sign of life"
        )


def _decoded(data: bytes | None) -> Holder:
    try:
        return msgspec.json.decode(data or b"{}", type=Holder)
    except msgspec.DecodeError:
        return Holder()
