"""Detects whether code of harnesses draws random numbers."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def state() -> tuple[Any, ...]:
    """Returns the state of Python's generator and of NumPy's, which changes with every draw."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return random.getstate(), None
    name, keys, *more = numpy.random.get_state()
    return random.getstate(), (name, keys.tobytes(), *more)


@contextmanager
def watched() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns True if numbers were drawn since."""
    before = state()
    yield lambda: state() != before
