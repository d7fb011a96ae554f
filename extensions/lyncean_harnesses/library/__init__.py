"""Tasks of other evaluation harnesses: code that asking and scoring share.

A harness is imported when one of its tasks is used, not earlier.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lyncean.errors import UserError

PREFIXES = {"lmms": "lyncean_harnesses.library.lmms_eval", "lm-eval": "lyncean_harnesses.library.lm_eval"}
"""Prefix of a task's name, before its colon -> the module that knows the harness."""


class HarnessError(UserError):
    """A foreign task that cannot be used: its name, what it lacks, and what to do."""


def split(word: str) -> tuple[str, str] | None:
    """Returns (prefix, name) of a foreign task's name, None for any other word."""
    prefix, colon, name = word.partition(":")
    return (prefix, name) if colon and name and prefix in PREFIXES else None


def harness(prefix: str) -> Any:
    """Returns the `Library` of a harness; the harness itself is not imported by it."""
    return importlib.import_module(PREFIXES[prefix]).LIBRARY


CLOSED = "http://127.0.0.1:9/v1"
"""An address that refuses connections, for foreign code that calls a judge."""

_judge = [CLOSED]


def use_judge(url: str) -> None:
    """Sets the OpenAI-compatible base URL of the judge for foreign code; call it before a harness is imported."""
    _judge[0] = url


def judge_url() -> str:
    """Returns the base URL of the judge for foreign code: `CLOSED` unless `use_judge` set another."""
    return _judge[0]


@contextmanager
def seeded(key: str | tuple[int, int]) -> Iterator[None]:
    """Seeds the random generators for foreign code and restores their states afterwards.

    Args:
        key: Text that determines the seeds; or the seeds of Python's generator and of NumPy's.
    """
    hashed = int.from_bytes(hashlib.sha256(str(key).encode()).digest()[:4], "big")
    seed, numpy_seed = key if isinstance(key, tuple) else (hashed, hashed)
    state = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    random.seed(seed)
    if numpy:
        numpy.random.seed(numpy_seed)
    try:
        yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)
