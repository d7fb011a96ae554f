"""The time that calls to a bucket have once the process is to end: a silent one would hold it for minutes."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from lyncean.rpc.waits import started

SECONDS = 20.0
"""Seconds after Ctrl-C or SIGTERM. A pod has 60, and before this the requests in flight end."""
_LOOKS_EVERY = 0.1

T = TypeVar("T")

_until = math.inf
_ending = False


def renew() -> None:
    """Lets calls last as long as their client waits, after earlier work of this process was stopped."""
    global _until, _ending
    _until, _ending = math.inf, False


def end_soon() -> None:
    """Notes a signal: the process ends with the work in hand, whose calls have their time until `begin`."""
    global _ending
    _ending = True


def ending() -> bool:
    """Returns whether the process is to end."""
    return _ending


def begin(*, at_once: bool = False) -> None:
    """Ends the calls of this process, also later ones, in SECONDS or at once."""
    global _until
    end_soon()
    _until = min(_until, time.monotonic() + (0 if at_once else SECONDS))


def check() -> None:
    """Makes sure that there is time for a write: one that was given up may still arrive beside it.

    Raises:
        TimeoutError: The time is over.
    """
    if time.monotonic() >= _until:
        raise TimeoutError("not written, for the command was stopped")


def within(call: Callable[[], T]) -> T:
    """Returns the result of a blocking call.

    Raises:
        TimeoutError: The process is to end, and the call has not.
    """
    future = started(call, "bucket")
    while True:
        try:
            return future.result(_LOOKS_EVERY)
        except TimeoutError:
            if future.done():
                return future.result()
            if time.monotonic() >= _until:
                raise TimeoutError("no answer, and the command was stopped") from None


@contextlib.contextmanager
def heard(*, at_once: bool = False) -> Iterator[threading.Event]:
    """Lets Ctrl-C and SIGTERM `begin` the end of calls, or end them at once as a second one does.

    Yields:
        An event that is set if one came.
    """
    signalled = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # where no signals are handled
        yield signalled
        return

    def handle(*_: object) -> None:
        if signalled.is_set() or at_once:
            begin(at_once=True)
        else:
            begin()
            print(f"stopping: the upload ends within {SECONDS:.0f} s; interrupt again to stop at once", file=sys.stderr)
        signalled.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signalled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
