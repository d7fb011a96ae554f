"""A server that ends with the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_VARIABLE = "LYNCEAN_PARENT"
_PR_SET_PDEATHSIG = 1


def with_parent(environment: dict[str, str]) -> dict[str, str]:
    """Returns a child's environment that names this process as the one to end with."""
    return environment | {_VARIABLE: str(os.getpid())}


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
