"""The process of a cell: imports what it needs, closes itself, proves it, and answers calls."""

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
"""Bytes of the stack of a thread that waits."""
_LIMITS = {
    errno.EACCES: "file", errno.EFBIG: "file", errno.EPERM: "network", errno.EAGAIN: "process", errno.ENOMEM: "memory",
}  # fmt: skip
"""Error -> the limit that the code has met: Landlock, the size of a file, sockets, processes, memory."""

_MANY = 16
"""Processes from which on those of a zygote are worth larger pages, which it takes 0.1 to 0.2 s to make."""
_ENDS_WITHIN = 1000
"""Rounds in which what a call has started is ended."""


def main(place: int) -> None:
    """Answers on a descriptor until the other side ends: as a zygote where the first message says so, or as a cell."""
    parent = os.getppid()
    first = receive(place)
    (_zygote if first.get("zygote") else _cell)(place, parent, first)


def _cell(place: int, parent: int, first: Mapping[str, Any]) -> None:
    """Closes this process and answers calls.

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
        send(place, {"failed": _told(error)})
        return
    _end_with(parent, place)  # afterwards: what closes this process closes its later threads alone
    if fence.strict and not forbid_threads():
        layers.remove("seccomp")
    gc.freeze()
    send(place, {"layers": layers})
    with socket.socket(fileno=place) as connection:
        while True:
            try:
                message, descriptors = receive_beside(connection)
            except ClosedError:
                return
            message["arguments"] = [*descriptors, *message["arguments"]]
            if fork and not message.get("first"):
                _forked(place, functions, message, fence)
                _end(children)
            else:
                _answer(place, functions, message)
                if message.get("first"):
                    gc.freeze()
            for descriptor in descriptors:
                with contextlib.suppress(OSError):  # the function may have closed it
                    os.close(descriptor)


def _write_to(folder: str) -> None:
    """Has temporary files written to a folder; a module that is loaded already may know another."""
    if Path(folder).is_dir():
        os.environ["TMPDIR"] = folder
        if loaded := sys.modules.get("tempfile"):
            vars(loaded)["tempdir"] = None


def _zygote(place: int, parent: int, first: Mapping[str, Any]) -> None:
    """Imports what cells need, closes this process as far as they can still close themselves, and makes them.

    The first message has `setup` with its `arguments`, and a fence within which those of all cells are. Later ones have
    the descriptor on which a cell is to answer, or ask how a process of a cell ended.
    """
    try:
        _named(first["setup"])(**first["arguments"])
        close(Fence(**first["fence"]), may_fork=True, may_close=True)
    except BaseException as error:
        send(place, {"failed": _told(error)})
        return
    _end_with(parent, place)
    gc.collect()
    gc.freeze()
    send(place, {})
    connection = socket.socket(fileno=place)
    made = 0
    while True:
        try:
            message, descriptors = receive_beside(connection)
        except ClosedError:
            return
        if "ended" in message:
            process, status = os.waitpid(message["ended"], os.WNOHANG)
            send(place, {"code": os.waitstatus_to_exitcode(status) if process else None})
            continue
        made += 1
        if made <= _MANY and (message["forks"] or made == _MANY):
            made = _MANY
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
        send(place, {"pid": child})


def _end_with(parent: int, place: int) -> None:
    """Ends this process and those made of it when its parent does, however that ended, within a call as well."""

    def watch() -> None:
        side = select.poll()
        side.register(place, 0)  # that the other side has closed is always told
        # Processes that were made of the parent may hold the other side, too.
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
    """Returns an open file with this process's children, those that its children leave among them."""
    adopt_orphans()
    return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)


def _end(children: int) -> None:
    """Ends what a call has left running; ends the cell where that does not help."""
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
    found: Function = getattr(importlib.import_module(module), name)
    return found


def _proven(layers: tuple[str, ...], status: str) -> list[str]:
    """Returns the layers that hold when they are tried; what a zygote's do not refuse is tried as well."""
    proven = [name for name in layers if name == "rlimits"]
    if "landlock" in layers and all(_refused(partial(_open, path), errno.EACCES) for path in _OUTSIDE):
        proven.append("landlock")
    tried = (_connect, _limit_again)
    if "seccomp" in layers and "Seccomp:\t2" in status and all(_refused(each, errno.EPERM) for each in tried):
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
    except ValueError:  # so Python names EPERM
        raise PermissionError(errno.EPERM, "not permitted") from None


def _refused(attempt: Callable[[], None], expected: int) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno == expected
    return False


def _forked(place: int, functions: Mapping[str, Function], message: Any, fence: Fence) -> None:
    """Answers in a process of its own, which never holds the descriptor on which the next call will come."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(place)
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
        send(place, {"ended": os.waitstatus_to_exitcode(status)})
    else:
        send_bytes(place, reply)


def _answer(place: int, functions: Mapping[str, Function], message: Any) -> None:
    try:
        reply = {"value": functions[message["call"]](*message["arguments"])}
    except BaseException as error:
        reply = {"limit": limit_of(error), "failed": _told(error)}
    try:
        send(place, reply)
    except (TypeError, ValueError, MemoryError) as error:
        send(place, {"limit": "memory" if isinstance(error, MemoryError) else "", "failed": _told(error)})


def nothing() -> dict[str, Function]:
    """Returns the functions of a cell with which a system is tried."""
    return {"nothing": _nothing}


def _nothing() -> None:
    pass


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000].removesuffix(": ")


def limit_of(error: BaseException | None) -> str:
    """Returns the limit that code has met, "" where it failed by itself; the first cause counts."""
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
