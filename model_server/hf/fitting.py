"""Passes that do not fit into the device's memory: what they leave is freed, and a smaller one takes their place."""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def fitted(run: Callable[[], Result], size: int, what: str, *, smaller: bool) -> Result | None:
    """Runs a pass; returns None where it does not fit into memory, which then holds nothing of it.

    Args:
        run: Runs it.
        size: How much it reads, for the log.
        what: Of what.
        smaller: Whether half of it can be run instead.

    Raises:
        torch.OutOfMemoryError: It does not fit, and there is nothing smaller.
    """
    try:
        return run()
    except torch.OutOfMemoryError as error:
        if not smaller:
            raise
        log.warning("out of memory with %d %s in one pass: half as many are read instead", size, what)
        drop_frames(error)
    free()  # behind the handler: while it runs, the error's frames hold the pass
    return None


def drop_frames(error: BaseException) -> None:
    """Clears the local variables of the frames that an error and its causes went through."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            waiting += [each.__cause__, each.__context__]


def free() -> None:
    """Gives memory that nothing refers to back to the device; called where no exception is being handled."""
    gc.collect()
    torch.cuda.empty_cache()
