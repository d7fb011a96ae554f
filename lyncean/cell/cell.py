"""A cell: a child process in which code and files of others are used, and from which they reach nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from lyncean.cell.closing import LAYERS, PROCESS, Fence
from lyncean.cell.frames import ClosedError, SilentError, receive, send, send_beside
from lyncean.errors import UserError

_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/localtime",
    "/etc/ld.so.cache", "/etc/mime.types", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/proc/cpuinfo",
    "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip
"""Files that libraries read wherever they run."""

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from lyncean.cell.child import main
main(int(sys.argv[1]))
"""
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
_STARTS_WITHIN = 300.0
_GRACE = 2.0
"""Seconds beyond the processor time of a call: what waits and does not compute is ended too."""
_SLACK = 1.0
"""Seconds within which short calls share a limit."""


class CellError(UserError):
    """A call to which a cell has no value.

    Attributes:
        limit: "memory", "cpu", "file", "network" or "process" where the code met that limit; "" where it failed.
    """

    def __init__(self, message: str, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class StartError(CellError):
    """A cell does not start, or is not closed here: nothing has been called."""


class Cell:
    """A closed child process with functions that can be called; one call at a time.

    Args:
        setup: "module:function" that runs in the child before it closes itself, takes `arguments` and returns the
            functions by name. Arguments and values are JSON.
        arguments: Keyword arguments of `setup`, JSON.
        fence: Files, memory and rights beside the interpreter's own files.
        fork: Whether each call gets a fresh process, so that nothing of one call reaches another: 15 to 50 ms more.
        layers: Layers that must hold; a cell that is less closed does not run.
    """

    def __init__(
        self,
        setup: str,
        arguments: Mapping[str, Any] | None = None,
        fence: Fence | None = None,
        *,
        fork: bool = False,
        layers: Sequence[str] = LAYERS,
    ) -> None:
        self._setup, self._arguments, self._fork, self._needed = setup, dict(arguments or {}), fork, tuple(layers)
        fence = fence or Fence()
        self._fence = replace(fence, reads=(*interpreter(setup), *fence.reads), writes=(*fence.writes, "/dev/null"))
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ours: socket.socket | None = None
        self._limited = 0.0, 0.0
        self.layers: tuple[str, ...] = ()

    def call(
        self,
        name: str,
        *arguments: Any,
        seconds: float = 60.0,
        descriptors: Sequence[int] = (),
        kept: bool = False,
    ) -> Any:
        """Returns what a function of the cell returns; starts the cell if it does not run.

        Args:
            name: The function.
            arguments: JSON.
            seconds: Processor time that the call may take.
            descriptors: Open files, which the function gets before its arguments, by the numbers that they have in the
                cell; it has them until it returns.
            kept: Whether a cell that forks runs it in the process of which it makes the others: they have what it
                loaded.

        Raises:
            CellError: The code failed, met a limit, or ended its process; or the cell cannot be closed here.
        """
        with self._lock:
            place = self._started()
            self._limit(seconds)
            try:
                message = {"call": name, "arguments": arguments, "kept": kept}
                if descriptors and self._ours is not None:
                    send_beside(self._ours, message, descriptors)
                else:
                    send(place, message)
                reply = receive(place)
            except ClosedError as error:
                raise CellError(*self._ended(overtime=isinstance(error, SilentError))) from None
        # Code that runs a model's answer may have written the reply.
        if not isinstance(reply, dict):
            reply = {}
        if isinstance(reply.get("ended"), int):
            raise CellError(*_reason(reply["ended"], overtime=False))
        if "failed" in reply:
            raise CellError(str(reply["failed"]), str(reply.get("limit", "")))
        if "value" not in reply:
            raise CellError("its reply cannot be read")
        return reply["value"]

    def close(self) -> None:
        """Ends the child."""
        self._kill()
        with self._lock:
            self._forget()

    def _started(self) -> int:
        if self._ours is not None:
            if self._process is not None and self._process.poll() is None:
                return self._ours.fileno()
            self._forget()  # it ended between two calls: the system was short of memory
        ours, theirs = socket.socketpair()
        with theirs:
            path = [str(Path(folder or ".").resolve()) for folder in sys.path]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, str(theirs.fileno()), json.dumps(path)],
                env=_ENVIRONMENT | ({"TMPDIR": folder} if Path(folder := self._fence.writes[0]).is_dir() else {}),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._ours = ours
        self._limited = 0.0, 0.0
        self._wait_at_most(_STARTS_WITHIN)
        try:
            first = {
                "setup": self._setup,
                "arguments": self._arguments,
                "fence": asdict(self._fence),
                "fork": self._fork,
            }
            send(ours.fileno(), first)
            reply = receive(ours.fileno())
        except ClosedError:
            message, limit = self._ended(overtime=False)
            raise StartError(f"a cell cannot be started: {message}", limit) from None
        if "failed" in reply:
            self._stop()
            raise StartError(str(reply["failed"]))
        self.layers = tuple(name for name in LAYERS if name in reply["layers"])
        if missing := [name for name in self._needed if name not in self.layers]:
            self._stop()
            raise StartError(f"a cell is not closed here: {', '.join(missing)} does not hold on this system")
        return ours.fileno()

    def _limit(self, seconds: float) -> None:
        """Lets the child take so much processor time from now on, and a little more by the clock."""
        now = time.monotonic()
        if self._limited[0] == seconds and now - self._limited[1] < _SLACK:
            return
        self._limited = seconds, now
        self._wait_at_most(seconds + _GRACE)
        if self._process is None or not hasattr(resource, "prlimit"):
            return
        ticks = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        used = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_CPU)
        resource.prlimit(self._process.pid, resource.RLIMIT_CPU, (int(used + seconds + _SLACK) + 1, hard))

    def _wait_at_most(self, seconds: float) -> None:
        assert self._ours is not None
        whole = int(seconds)
        timeout = struct.pack("ll", whole, int((seconds - whole) * 1e6))
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            # The child leads a group of its own: what it started ends with it.
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
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if overtime else _GRACE)
        self._kill()
        code = self._process.wait()
        self._forget()
        return _reason(code, overtime=overtime)


@cache
def holding() -> tuple[str, ...]:
    """Returns the layers that hold on this system, tried once by a cell; "process" alone where none does."""
    cell = Cell("lyncean.cell.child:nothing", layers=())
    try:
        cell.call("nothing")
    except CellError:
        return (PROCESS,)
    finally:
        cell.close()
    return cell.layers or (PROCESS,)


def closes() -> bool:
    """Whether every layer holds on this system."""
    return set(LAYERS) <= set(holding())


def interpreter(*modules: str) -> list[str]:
    """Returns the files that a child reads of the system: the interpreter's, installed packages', some modules'."""
    from importlib.util import find_spec

    folders = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *_SYSTEM}
    folders.update(path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    for module in (*modules, "lyncean"):
        spec = find_spec(module.partition(":")[0].partition(".")[0])
        if spec is not None:
            folders.update(spec.submodule_search_locations or ([spec.origin] if spec.origin else []))
    return sorted(folder for folder in folders if Path(folder).exists())


def _reason(code: int, *, overtime: bool) -> tuple[str, str]:
    """Returns the words for how a child ended, and the limit that it met."""
    if overtime or -code == signal.SIGXCPU:
        return "it was ended: it took longer than it may", "cpu"
    if -code == signal.SIGXFSZ:
        return "it was ended: it wrote a file larger than it may", "file"
    if code < 0:
        # Libraries end so where an allocation fails, and the system where all memory is taken.
        short = -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"it was ended by {name}", "memory" if short else ""
    return f"its process ended with {code}", ""
