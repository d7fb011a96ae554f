"""One writer at a time: an object that says who writes, renewed while he does."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any

import orjson

from orchestrator.run_folder.log import RunBusyError
from orchestrator.run_folder.remote.store import Store

WRITER = "writer.json"
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")

_READS, _BETWEEN_READS = 10, 0.1
"""How often, and every how many seconds, a lease that cannot be read is read again before it counts as none."""


class Lease:
    """Holds a remote run folder.

    Args:
        store: The folder.
        seconds: For how long an unrenewed lease is respected.

    Raises:
        RunBusyError: If another process holds it.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._id = secrets.token_hex(8)
        if not store.create(WRITER, self._content()):
            other = self._settled()
            if other and not _over(other):
                raise RunBusyError(_busy(store, other))
            store.put(WRITER, self._content())
            self.check()

    def renew(self) -> None:
        """Says that this process still writes.

        Raises:
            RunBusyError: If another has taken the folder over meanwhile.
        """
        self.check()
        self._store.put(WRITER, self._content())

    def check(self) -> None:
        """Makes sure that the folder is still this process's.

        Raises:
            RunBusyError: If it is not.
        """
        other = self._there()
        if not other or other.get("id") != self._id:
            raise RunBusyError(_busy(self._store, other or {}))

    def release(self) -> None:
        """Lets the folder go."""
        self._store.delete(WRITER)

    def _content(self) -> bytes:
        return orjson.dumps(
            {
                "id": self._id,
                **_here(),
                "pid": os.getpid(),
                "renewed": time.time(),
                "seconds": self._seconds,
            }
        )

    def _settled(self) -> dict[str, Any] | None:
        """Returns the lease that another process holds; on a file system it may be half written when it is read."""
        for _ in range(_READS):
            if found := self._there():
                return found
            time.sleep(_BETWEEN_READS)
        return None

    def _there(self) -> dict[str, Any] | None:
        data = self._store.get(WRITER)
        try:
            found: dict[str, Any] | None = orjson.loads(data) if data else None
        except orjson.JSONDecodeError:
            return None
        return found


def _here() -> dict[str, str | int]:
    """Returns the machine and, where the system tells them, its boot and the namespace that pids are counted in."""
    found: dict[str, str | int] = {"host": socket.gethostname()}
    with contextlib.suppress(OSError):
        found |= {"boot_id": _BOOT_ID.read_text(encoding="ascii").strip(), "pid_namespace": _PROCESSES.stat().st_ino}
    return found


def _over(lease: dict[str, Any]) -> bool:
    """Whether who holds a lease is gone: not renewed for long, or a process that would be seen here and is not."""
    if time.time() - float(lease["renewed"]) > float(lease["seconds"]):
        return True
    here = _here()
    # Many machines and containers share a name.
    if "boot_id" not in here or any(lease.get(name) != value for name, value in here.items()):
        return False
    try:
        os.kill(int(lease["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _busy(store: Store, lease: dict[str, Any]) -> str:
    who = f"{lease.get('host', 'another machine')}, pid {lease.get('pid', 'unknown')}"
    return (
        f"{store.url} is being written by another process ({who}): wait for it; where that process is gone, "
        f"the folder is free {float(lease.get('seconds', 0)):.0f} s after its last sign of life"
    )
