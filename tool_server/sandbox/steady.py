"""Makes code repeatable: fixed seeds, and a clock that advances only when the code reads it."""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

_START = 1_700_000_000.0
"""Seconds since 1970 at which the clock begins."""
_TICK = 0.001
"""Seconds by which each reading advances it."""


class _Clock:
    def __init__(self) -> None:
        self.now = _START

    def look(self) -> float:
        self.now += _TICK
        return self.now

    def look_ns(self) -> int:
        return round(self.look() * 1e9)

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.now += seconds


def hold(seed: int = 0) -> None:
    """Seeds the generators of this process, and replaces its clock and the system's random bytes.

    It does not fix `random.Random()` and `random.seed()` without a number, `uuid.uuid1`, `numpy.datetime64("now")`,
    addresses of objects, the order of a folder's files, and the last digits of sums on another kind of processor.
    """
    clock, source = _Clock(), random.Random(seed)
    vars(time).update(_held_time(clock))
    os.urandom = source.randbytes
    random.SystemRandom = random.Random  # type: ignore[misc, assignment]
    random.seed(seed)
    _seed_numpy(seed, source)

    def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return cls.fromtimestamp(clock.look(), tz or datetime.UTC).replace(tzinfo=tz)

    _replace(datetime.datetime, {name: classmethod(now) for name in ("now", "utcnow", "today")})
    _hold_waits(clock)
    vars(tempfile)["_RandomNameSequence"].rng = source


def _held_time(clock: _Clock) -> dict[str, Any]:
    """Returns the functions of `time` that look at a clock, by name."""
    seconds = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    held: dict[str, Any] = dict.fromkeys(seconds, clock.look)
    held |= {f"{name}_ns": clock.look_ns for name in seconds}
    held |= {"clock_gettime": lambda _: clock.look(), "clock_gettime_ns": lambda _: clock.look_ns()}
    for name in ("gmtime", "localtime", "ctime"):
        held[name] = _with_default(getattr(time, name), clock.look)
    held["asctime"] = _with_default(time.asctime, held["localtime"])
    strftime, local = time.strftime, held["localtime"]
    held["strftime"] = lambda format, *when: strftime(format, *(when or (local(),)))
    return held | {"sleep": clock.sleep}


def _with_default(function: Callable[[Any], Any], default: Callable[[], Any]) -> Callable[..., Any]:
    return lambda value=None: function(default() if value is None else value)


def _replace(kind: type, methods: Mapping[str, Any]) -> None:
    """Replaces methods of a class of C, which stays the same class: C libraries derive from it."""
    names: dict[str, Any] = gc.get_referents(kind.__dict__)[0]
    names.update(methods)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _hold_waits(clock: _Clock) -> None:
    """Makes the waits of an event loop take no time, for want of other processes or threads to wait for."""
    import selectors

    kind: Any = selectors.DefaultSelector
    look = kind.select

    def select(self: Any, timeout: float | None = None) -> Any:
        if timeout is None:
            return look(self, None)
        ready = look(self, 0)
        if not ready:
            clock.sleep(max(0.0, timeout))
        return ready

    kind.select = select


def _seed_numpy(seed: int, source: random.Random) -> None:
    import numpy
    from numpy.random import bit_generator

    numpy.random.seed(seed)
    vars(bit_generator)["randbits"] = source.getrandbits
    import secrets

    vars(secrets).update(randbits=source.getrandbits, token_bytes=lambda count=32: source.randbytes(count or 32))
