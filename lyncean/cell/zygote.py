"""A process that imports once what many cells need: each of them is a fork of it and closes itself."""

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
    """A child process of which cells are made; it runs no code but what `setup` imports.

    It is closed as far as what is made of it can still close itself.

    Args:
        setup: "module:function" that runs in it before it closes itself and takes `arguments`.
        arguments: JSON.
        fence: What the cells that are made of it may do, together.
        environment: Its variables, and theirs, beside those of every such process.
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

    def make(self, place: socket.socket, *, forks: bool) -> Made:
        """Makes a process that answers on a socket as a cell, in a session of its own.

        Args:
            place: The socket.
            forks: Whether many further ones will be made of it.

        Raises:
            ClosedError: The zygote does not start, or has ended.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._process
            return Made(self, self._process, int(self._asked({"forks": forks}, [place.fileno()])["pid"]))

    def code(self, of: subprocess.Popen[bytes], process: int) -> int | None:
        """Returns how a process ended that was made by one run of the zygote, None while it runs."""
        with self._lock:
            try:
                # What was made of a zygote ends with it.
                return -signal.SIGKILL if self._process is not of else self._asked({"ended": process})["code"]
            except ClosedError:
                return -signal.SIGKILL

    def close(self) -> None:
        """Ends the process and those that are made of it."""
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
    """A process that a zygote made, with as much of `subprocess.Popen` as a cell uses."""

    def __init__(self, zygote: Zygote, of: subprocess.Popen[bytes], pid: int) -> None:
        self.pid = pid
        self._zygote, self._of = zygote, of
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns how it ended, None while it runs."""
        if self._code is None:
            self._code = self._zygote.code(self._of, self.pid)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Waits until it has ended and returns how.

        Raises:
            subprocess.TimeoutExpired: It runs after that many seconds.
        """
        late = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if late is not None and time.monotonic() > late:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(_ASKS_EVERY)
        return code

    def kill(self) -> None:
        """Ends it."""
        if self.poll() is None:  # until it is asked for, its number is nobody else's
            os.kill(self.pid, signal.SIGKILL)
