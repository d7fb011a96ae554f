"""A server that ends with the process that started it, and tells it why it could not serve."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_VARIABLE = "LYNCEAN_PARENT"
_REASON_FILE = "LYNCEAN_REASON_FILE"
_PR_SET_PDEATHSIG = 1


def with_parent(environment: dict[str, str], reason: Path) -> dict[str, str]:
    """Returns a child's environment that names this process as the one to end with.

    Args:
        environment: The environment otherwise.
        reason: File in which `tell_parent` leaves why the child could not serve. Its stderr would not do: libraries
            print there after the error, some of them while the interpreter ends.
    """
    return environment | {_VARIABLE: str(os.getpid()), _REASON_FILE: str(reason)}


def tell_parent(message: str) -> None:
    """Leaves the error that ends this process to the process that started it, if that waits for one.

    Args:
        message: The error, of any number of lines.
    """
    if file := os.environ.get(_REASON_FILE):
        with contextlib.suppress(OSError):  # the parent has ended, and its folder with it
            Path(file).write_text(" ".join(message.split()), encoding="utf-8", errors="replace")


def end_with_parent() -> None:
    """Has the kernel end this process, on Linux, once the parent that its environment names has ended, in any way.

    The child asks for it, not code between fork and exec, where other threads' locks may be held for ever.
    """
    parent = os.environ.pop(_VARIABLE, "")
    if not parent.isdecimal() or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it ended before it was asked for
        os.kill(os.getpid(), signal.SIGTERM)
