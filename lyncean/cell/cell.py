"""A cell: a locked-down child process that runs foreign code and reads foreign files."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lyncean.cell.closing import LAYERS, PROCESS, Fence
from lyncean.cell.frames import ClosedError, Patience, SilentError, receive, send, send_beside
from lyncean.cell.process import STARTS_WITHIN, start, wait_at_most, whole_fence
from lyncean.cell.zygote import Made, Zygote
from lyncean.errors import UserError

_GRACE = 2.0
"""Seconds of wall-clock time beyond a call's processor time, so that code that only waits is ended too."""
_SLACK = 1.0
"""Seconds during which short calls share one limit, to save system calls."""
_BROKEN = "it was ended: what it sent is not a reply", ""


class CellError(UserError):
    """A call that a cell could not answer.

    Attributes:
        limit: "memory", "cpu", "file", "network" or "process" if the code hit that limit; "" if it failed.
    """

    def __init__(self, message: str, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class StartError(CellError):
    """A cell does not start, or cannot be locked down on this system; nothing was called."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a call of possibly hostile code, which may ignore signals and forge its reply.

    Attributes:
        wall: Seconds of wall-clock time.
        most: Largest reply in bytes.
        meanwhile: Called about ten times a second during the call; a CellError ends the cell.
    """

    wall: float
    most: int
    meanwhile: Callable[[], None]


class Cell:
    """A locked-down child process with functions to call, one at a time.

    Args:
        setup: "module:function" that runs in the child before the lockdown, takes `arguments` and returns the
            functions by name. Arguments and values are JSON.
        arguments: Keyword arguments of `setup`, JSON.
        fence: Files, memory and rights in addition to the interpreter's own files.
        fork: Whether each call runs in a fresh process, so that calls cannot affect each other; costs 5 to 50 ms.
        layers: Layers that must hold for the cell to run.
        zygote: A process with the imports of `setup` done, from which the cell is forked.
        first: A function of the cell with its arguments, called first in each new process. With `fork` it runs in the
            parent of the forks, which then share the loaded data.
        first_seconds: Processor time limit of `first`.
        still: Whether to stop the process between calls, so that code left behind by a call cannot run.
    """

    def __init__(
        self,
        setup: str,
        arguments: Mapping[str, Any] | None = None,
        fence: Fence | None = None,
        *,
        fork: bool = False,
        layers: Sequence[str] = LAYERS,
        zygote: Zygote | None = None,
        first: Sequence[Any] = (),
        first_seconds: float = 60.0,
        still: bool = False,
    ) -> None:
        self._setup, self._arguments, self._fork, self._needed = setup, dict(arguments or {}), fork, tuple(layers)
        self._zygote, self._first, self._first_seconds, self._still = zygote, first, first_seconds, still
        self._fence = whole_fence(fence or Fence(), setup)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | Made | None = None
        self._ours: socket.socket | None = None
        self._limited = 0.0, 0.0
        self.layers: tuple[str, ...] = ()

    def call(
        self,
        name: str,
        *arguments: Any,
        seconds: float = 60.0,
        descriptors: Sequence[int] = (),
        bounds: Bounds | None = None,
    ) -> Any:
        """Calls a function of the cell and returns its value; starts the cell if necessary.

        Args:
            name: The function.
            arguments: JSON.
            seconds: Processor time limit of the call.
            descriptors: Open files; the function receives their numbers in the cell before its arguments, and they are
                closed when it returns.
            bounds: Bounds of a call of possibly hostile code.

        Raises:
            CellError: The code failed, hit a limit, or ended its process; or the cell cannot be locked down here.
        """
        with self._lock:
            self._started()
            return self._asked({"call": name, "arguments": arguments}, seconds, descriptors, bounds)

    def _asked(
        self,
        message: Mapping[str, Any],
        seconds: float,
        descriptors: Sequence[int] = (),
        bounds: Bounds | None = None,
    ) -> Any:
        assert self._ours
        self._limit(seconds)
        self._signal(signal.SIGCONT)
        patience = self._patience(bounds, seconds) if bounds else None
        try:
            if descriptors:
                send_beside(self._ours, message, descriptors)
            else:
                send(self._ours.fileno(), message)
            reply = receive(self._ours.fileno(), patience)
            self._signal(signal.SIGSTOP)
            if bounds and select.select([self._ours], [], [], 0)[0]:
                raise ClosedError("it has sent more than its reply")
        except ClosedError as error:
            raise CellError(*self._ended(overtime=isinstance(error, SilentError))) from None
        except CellError:
            self._stop()
            raise
        # Hostile code may have forged the reply.
        if not isinstance(reply, dict):
            reply = {}
        if isinstance(reply.get("ended"), int):
            raise CellError(*_reason(reply["ended"], overtime=False))
        if "failed" in reply:
            raise CellError(str(reply["failed"]), str(reply.get("limit", "")))
        if "value" not in reply:
            raise CellError("its reply cannot be read")
        return reply["value"]

    def _patience(self, bounds: Bounds, seconds: float) -> Patience:
        latest = self._used() + seconds + _SLACK

        def meanwhile() -> None:
            if self._used() > latest:  # a process may ignore SIGXCPU
                raise SilentError("it takes too long")
            bounds.meanwhile()

        return Patience(time.monotonic() + bounds.wall, bounds.most, meanwhile)

    def _signal(self, number: int) -> None:
        """Stops or continues the processes of a cell with `still`."""
        if self._still and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    @property
    def running(self) -> bool:
        """True while the process of the last call runs."""
        return self._ours is not None and not _has_ended(self._ours)

    def close(self) -> None:
        """Ends the child."""
        self._kill()
        with self._lock:
            self._forget()

    def _started(self) -> None:
        """Starts the cell if it does not run."""
        if self._ours is not None:
            if not _has_ended(self._ours):
                return
            self._stop()  # it ended between two calls, for example for want of memory
        self._ours, theirs = socket.socketpair()
        self._limited = 0.0, 0.0
        wait_at_most(self._ours, STARTS_WITHIN)
        first = {"setup": self._setup, "arguments": self._arguments, "fence": asdict(self._fence), "fork": self._fork}
        try:
            with theirs:
                self._process = self._zygote.make(theirs, forks=self._fork) if self._zygote else start(theirs)
            send(self._ours.fileno(), first)
            reply = receive(self._ours.fileno())
        except ClosedError as error:
            message, limit = self._ended(overtime=False) if self._process else (str(error), "")
            self._forget()
            raise StartError(f"a cell cannot be started: {message}", limit) from None
        if "failed" in reply:
            self._stop()
            raise StartError(str(reply["failed"]))
        self.layers = tuple(name for name in LAYERS if name in reply["layers"])
        if missing := [name for name in self._needed if name not in self.layers]:
            self._stop()
            raise StartError(f"a cell is not closed here: {', '.join(missing)} does not hold on this system")
        if self._first:
            name, *arguments = self._first
            try:
                self._asked({"call": name, "arguments": arguments, "first": True}, self._first_seconds)
            except CellError:
                self._stop()
                raise

    def _limit(self, seconds: float) -> None:
        """Limits the child's processor time from now on, and its wall-clock time to a little more."""
        now = time.monotonic()
        if self._limited[0] == seconds and now - self._limited[1] < _SLACK:
            return
        self._limited = seconds, now
        assert self._ours
        wait_at_most(self._ours, seconds + _GRACE)
        if self._process is None or not hasattr(resource, "prlimit"):
            return
        used = self._used()
        _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_CPU)
        resource.prlimit(self._process.pid, resource.RLIMIT_CPU, (int(used + seconds + _SLACK) + 1, hard))

    def _used(self) -> float:
        """Returns the processor time of the child in seconds; 0 after its end."""
        assert self._process is not None
        try:
            ticks = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        except OSError:
            return 0.0
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            # The child leads a process group, so its own children are killed too.
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()

    def _stop(self) -> None:
        self._kill()
        self._forget()

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait()
        if self._ours is not None:
            self._ours.close()
        self._process = self._ours = None

    def _ended(self, *, overtime: bool) -> tuple[str, str]:
        assert self._process is not None
        assert self._ours is not None
        ours = False
        try:
            self._process.wait(_GRACE if not overtime and _has_ended(self._ours) else 0)
        except subprocess.TimeoutExpired:
            ours = True
        self._kill()
        code = self._process.wait()
        self._forget()
        return _reason(code, overtime=overtime) if overtime or not ours else _BROKEN


@cache
def holding() -> tuple[str, ...]:
    """Returns the layers that hold on this system, probed once by a cell; only "process" if none does."""
    cell = Cell("lyncean.cell.child:nothing", layers=())
    try:
        cell.call("nothing")
    except CellError:
        return (PROCESS,)
    finally:
        cell.close()
    return cell.layers or (PROCESS,)


def closes() -> bool:
    """Returns True if every layer holds on this system."""
    return set(LAYERS) <= set(holding())


def _has_ended(ours: socket.socket) -> bool:
    side = select.poll()
    side.register(ours, 0)  # a hang-up is always reported
    return bool(side.poll(0))


def _reason(code: int, *, overtime: bool) -> tuple[str, str]:
    """Describes how a child ended, and names the limit that it hit."""
    if overtime or -code == signal.SIGXCPU:
        return "it was ended: it took longer than it may", "cpu"
    if -code == signal.SIGXFSZ:
        return "it was ended: it wrote a file larger than it may", "file"
    if code < 0:
        # Libraries end this way when an allocation fails, and the kernel kills when memory runs out.
        short = -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"it was ended by {name}", "memory" if short else ""
    return f"its process ended with {code}", ""
