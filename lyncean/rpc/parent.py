"""Links a server to its parent process: it ends with the parent, and reports to it why it could not start."""

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
    """Returns an environment with which a child ends when this process does.

    Args:
        environment: The child's other variables.
        reason: File into which `tell_parent` writes why the child could not serve. stderr is unsuitable: libraries
            print there after the error, even while the interpreter exits.
    """
    return environment | {_VARIABLE: str(os.getpid()), _REASON_FILE: str(reason)}


def tell_parent(message: str) -> None:
    """Reports the error that ends this process to its parent, if that expects a report.

    Args:
        message: The error, of one or more lines.
    """
    if file := os.environ.get(_REASON_FILE):
        with contextlib.suppress(OSError):  # the parent ended and deleted its folder
            Path(file).write_text(" ".join(message.split()), encoding="utf-8", errors="replace")


def end_with_parent() -> None:
    """Asks the kernel, on Linux, to end this process when the parent named in its environment ends for any reason.

    The child calls this itself: code between fork and exec could wait forever for locks of other threads.
    """
    parent = os.environ.pop(_VARIABLE, "")
    if not parent.isdecimal() or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # the parent ended before the call
        os.kill(os.getpid(), signal.SIGTERM)
