"""Tasks of other evaluation harnesses: what asking and scoring share of them.

A harness is imported when one of its tasks is asked for, and never before.
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
"""Where foreign code finds nobody."""

_judge = [CLOSED]


def use_judge(url: str) -> None:
    """Sets the OpenAI-compatible base URL at which foreign code asks a judge; before a harness is imported."""
    _judge[0] = url


def judge_url() -> str:
    """Returns where foreign code asks a judge: nowhere, unless `use_judge` said so."""
    return _judge[0]


@contextmanager
def seeded(words: str | tuple[int, int]) -> Iterator[None]:
    """Gives foreign code generators of random numbers of its own, and ours back afterwards.

    Args:
        words: What the numbers are to depend on; or the seeds of Python's generator and of NumPy's.
    """
    hashed = int.from_bytes(hashlib.sha256(str(words).encode()).digest()[:4], "big")
    seed, numpy_seed = words if isinstance(words, tuple) else (hashed, hashed)
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
