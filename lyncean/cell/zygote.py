"""A process that imports the modules of many cells once; each cell is a fork that locks itself down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from lyncean.cell.closing import Fence
from lyncean.cell.frames import ClosedError, receive, send_beside
from lyncean.cell.process import LARGE_PAGES, STARTS_WITHIN, start, wait_at_most, whole_fence

_ASKS_EVERY = 0.005
"""Seconds."""


class Zygote:
    """A child process from which cells are forked; it only runs code that `setup` imports.

    It is locked down as far as its forks allow, since they lock themselves down further.

    Args:
        setup: "module:function" that runs before the lockdown and takes `arguments`.
        arguments: JSON.
        fence: Union of the rights of its cells.
        environment: Variables of it and its cells, besides those of every cell.
    """

    def __init__(
        self,
        setup: str,
        arguments: Mapping[str, Any],
        fence: Fence,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        fence = whole_fence(fence, setup)
        self._first = {"zygote": True, "setup": setup, "arguments": dict(arguments), "fence": asdict(fence)}
        self._environment = {**LARGE_PAGES, **environment}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ours: socket.socket | None = None

    def make(self, connection: socket.socket, *, forks: bool) -> Made:
        """Forks a process that answers on a socket as a cell, in a session of its own.

        Args:
            connection: The socket.
            forks: Whether the cell forks for each call.

        Raises:
            ClosedError: The zygote does not start, or has ended.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._process
            return Made(self, self._process, int(self._asked({"forks": forks}, [connection.fileno()])["pid"]))

    def code(self, of: subprocess.Popen[bytes], process: int) -> int | None:
        """Returns the exit code of a process that one run of the zygote forked; None while it runs."""
        with self._lock:
            try:
                # Forks of a zygote end with it.
                return -signal.SIGKILL if self._process is not of else self._asked({"ended": process})["code"]
            except ClosedError:
                return -signal.SIGKILL

    def close(self) -> None:
        """Kills the process and its forks."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = start(theirs, self._environment)
        wait_at_most(self._ours, STARTS_WITHIN)
        try:
            self._asked(self._first)
        except ClosedError:
            self._end()
            raise

    def _asked(self, message: Any, descriptors: Sequence[int] = ()) -> Any:
        assert self._ours
        send_beside(self._ours, message, descriptors)
        reply = receive(self._ours.fileno())
        if "failed" in reply:
            raise ClosedError(str(reply["failed"]))
        return reply

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._ours is not None:
            self._ours.close()
        self._process = self._ours = None


class Made:
    """A process forked by a zygote, with the part of `subprocess.Popen` that cells use."""

    def __init__(self, zygote: Zygote, of: subprocess.Popen[bytes], pid: int) -> None:
        self.pid = pid
        self._zygote, self._of = zygote, of
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code; None while it runs."""
        if self._code is None:
            self._code = self._zygote.code(self._of, self.pid)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the exit code.

        Raises:
            subprocess.TimeoutExpired: It still runs after `timeout` seconds.
        """
        late = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if late is not None and time.monotonic() > late:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(_ASKS_EVERY)
        return code

    def kill(self) -> None:
        """Kills it."""
        if self.poll() is None:  # its process ID is not reused before the exit code was read
            os.kill(self.pid, signal.SIGKILL)
