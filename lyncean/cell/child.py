"""The child process of a cell: imports its modules, locks itself down, proves the lockdown, and answers calls."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from lyncean.cell.closing import Fence, adopt_orphans, close, end_with_parent, forbid_processes, forbid_threads
from lyncean.cell.frames import ClosedError, receive, receive_beside, receive_bytes, send, send_bytes
from lyncean.cell.pages import join_pages

Function = Callable[..., Any]
_OUTSIDE = ("/etc/passwd", "/proc/self/status")
"""Files that no cell may read; the second one a zygote may."""
_WATCHER = 256 << 10
"""Stack size in bytes of the watching thread."""
_LIMITS = {
    errno.EACCES: "file", errno.EFBIG: "file", errno.EPERM: "network", errno.EAGAIN: "process", errno.ENOMEM: "memory",
}  # fmt: skip
"""errno -> the limit that the code hit: Landlock, file size, sockets, processes, memory."""

_MANY = 16
"""Forks after which a zygote joins its memory into large pages, which takes 0.1 to 0.2 s."""
_ENDS_WITHIN = 1000
"""Attempts to kill the processes that a call has started."""


def main(channel: int) -> None:
    """Answers on a descriptor until the other side closes it, as a zygote or a cell: the first message decides."""
    parent = os.getppid()
    first = receive(channel)
    (_zygote if first.get("zygote") else _cell)(channel, parent, first)


def _cell(channel: int, parent: int, first: Mapping[str, Any]) -> None:
    """Locks down this process and answers calls.

    The first message has the fence, `fork` (whether each call gets a process of its own), and `setup`, "module:name" of
    a function that takes `arguments` and returns the functions that can be called, by name.
    """
    fence, fork = Fence(**first["fence"]), bool(first["fork"])
    _write_to(fence.writes[0])
    try:
        functions = _named(first["setup"])(**first["arguments"])
        with _status() as status:
            children = _children() if fork and fence.programs else -1
            layers = _proven(close(fence, may_fork=fork), status.read())
    except BaseException as error:
        send(channel, {"failed": _told(error)})
        return
    _end_with(parent, channel)  # started after the lockdown, which only later threads inherit
    if fence.strict and not forbid_threads():
        layers.remove("seccomp")
    gc.freeze()
    send(channel, {"layers": layers})
    with socket.socket(fileno=channel) as connection:
        while True:
            try:
                message, descriptors = receive_beside(connection)
            except ClosedError:
                return
            message["arguments"] = [*descriptors, *message["arguments"]]
            if fork and not message.get("first"):
                _forked(channel, functions, message, fence)
                _end(children)
            else:
                _answer(channel, functions, message)
                if message.get("first"):
                    gc.freeze()
            for descriptor in descriptors:
                with contextlib.suppress(OSError):  # the function may have closed it
                    os.close(descriptor)


def _write_to(folder: str) -> None:
    """Redirects temporary files to a folder, also where `tempfile` is loaded already."""
    if Path(folder).is_dir():
        os.environ["TMPDIR"] = folder
        if loaded := sys.modules.get("tempfile"):
            vars(loaded)["tempdir"] = None


def _zygote(channel: int, parent: int, first: Mapping[str, Any]) -> None:
    """Imports what cells need, locks this process down as far as cells allow, and forks them.

    The first message has `setup` with its `arguments`, and a fence that encloses the fences of all cells. Each later
    message brings the descriptor on which a new cell answers, or asks for the exit code of a cell.
    """
    try:
        _named(first["setup"])(**first["arguments"])
        close(Fence(**first["fence"]), may_fork=True, may_close=True)
    except BaseException as error:
        send(channel, {"failed": _told(error)})
        return
    _end_with(parent, channel)
    gc.collect()
    gc.freeze()
    send(channel, {})
    connection = socket.socket(fileno=channel)
    forks = 0
    while True:
        try:
            message, descriptors = receive_beside(connection)
        except ClosedError:
            return
        if "ended" in message:
            process, status = os.waitpid(message["ended"], os.WNOHANG)
            send(channel, {"code": os.waitstatus_to_exitcode(status) if process else None})
            continue
        forks += 1
        if forks <= _MANY and (message["forks"] or forks == _MANY):
            forks = _MANY
            join_pages()
        zygote, child = os.getpid(), os.fork()
        if not child:
            try:
                connection.close()
                os.setsid()
                end_with_parent()
                _cell(descriptors[0], zygote, receive(descriptors[0]))
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        send(channel, {"pid": child})


def _end_with(parent: int, channel: int) -> None:
    """Kills this process and its descendants when the parent ends, for any reason and also during a call."""

    def watch() -> None:
        side = select.poll()
        side.register(channel, 0)  # a hang-up is always reported
        # Forks of the parent may hold the other side open, so a hang-up alone is not enough.
        while not side.poll(1000) and os.getppid() == parent:
            pass
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    usual = threading.stack_size(_WATCHER)
    threading.Thread(target=watch, daemon=True).start()
    threading.stack_size(usual)


def _status() -> TextIO:
    file = Path("/proc/self/status")
    return (file if file.exists() else Path(os.devnull)).open()


def _children() -> int:
    """Returns an open file that lists this process's children, adopted orphans included."""
    adopt_orphans()
    return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)


def _end(children: int) -> None:
    """Kills processes that a call has left running; exits if they cannot be killed."""
    for _ in range(_ENDS_WITHIN):
        left = os.pread(children, 1 << 16, 0).split() if children >= 0 else []
        if not left:
            return
        for word in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(int(word), signal.SIGKILL)
                os.waitpid(int(word), 0)
    os._exit(1)


def _named(word: str) -> Function:
    module, _, name = word.partition(":")
    function: Function = getattr(importlib.import_module(module), name)
    return function


def _proven(layers: tuple[str, ...], status: str) -> list[str]:
    """Returns the layers that hold in practice, also for calls that the zygote's own layers let through."""
    proven = [name for name in layers if name == "rlimits"]
    if "landlock" in layers and all(_refused(partial(_open, path), errno.EACCES) for path in _OUTSIDE):
        proven.append("landlock")
    attempts = (_connect, _limit_again)
    if "seccomp" in layers and "Seccomp:\t2" in status and all(_refused(attempt, errno.EPERM) for attempt in attempts):
        proven.append("seccomp")
    return proven


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _connect() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        tried.connect(("127.0.0.1", 9))


def _limit_again() -> None:
    limit = resource.RLIMIT_CORE
    try:
        resource.setrlimit(limit, resource.getrlimit(limit))
    except ValueError:  # Python reports EPERM as ValueError here
        raise PermissionError(errno.EPERM, "not permitted") from None


def _refused(attempt: Callable[[], None], expected: int) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno == expected
    return False


def _forked(channel: int, functions: Mapping[str, Function], message: Any, fence: Fence) -> None:
    """Answers in a fresh process, which never holds the descriptor that brings the next call."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(channel)
            os.close(ours)
            forbid_processes(fence)
            _answer(theirs, functions, message)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        reply = receive_bytes(ours)
    except ClosedError:
        reply = b""
    os.close(ours)
    _, status = os.waitpid(child, 0)
    if status or not reply:
        send(channel, {"ended": os.waitstatus_to_exitcode(status)})
    else:
        send_bytes(channel, reply)


def _answer(channel: int, functions: Mapping[str, Function], message: Any) -> None:
    try:
        reply = {"value": functions[message["call"]](*message["arguments"])}
    except BaseException as error:
        reply = {"limit": limit_of(error), "failed": _told(error)}
    try:
        send(channel, reply)
    except (TypeError, ValueError, MemoryError) as error:
        send(channel, {"limit": "memory" if isinstance(error, MemoryError) else "", "failed": _told(error)})


def nothing() -> dict[str, Function]:
    """Returns the functions of a cell that only probes the system."""
    return {"nothing": _nothing}


def _nothing() -> None:
    pass


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000].removesuffix(": ")


def limit_of(error: BaseException | None) -> str:
    """Returns the limit that the code hit, "" for a failure of its own; the first error of the chain counts."""
    while error is not None:
        if isinstance(error, MemoryError):
            return "memory"
        if isinstance(error, socket.gaierror):
            return "network"
        if isinstance(error, OSError) and error.errno in _LIMITS:
            return _LIMITS[error.errno]
        error = error.__cause__ or error.__context__
    return ""


if __name__ == "__main__":
    main(int(sys.argv[1]))
