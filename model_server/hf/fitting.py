"""Handles passes that do not fit into the device's memory: frees their tensors and falls back to a smaller pass."""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def fitted(run: Callable[[], Result], size: int, unit: str, *, smaller: bool) -> Result | None:
    """Runs a pass; returns None if it does not fit into memory, after its tensors are freed.

    Args:
        run: Runs the pass.
        size: Size of the pass, for the log.
        unit: The unit of `size`, for the log.
        smaller: Whether a pass of half the size can run instead.

    Raises:
        torch.OutOfMemoryError: It does not fit, and cannot be halved.
    """
    try:
        return run()
    except torch.OutOfMemoryError as error:
        if not smaller:
            raise
        log.warning("out of memory with %d %s in one pass: half as many are read instead", size, unit)
        drop_frames(error)
    free()  # after the handler: while it runs, the error's frames hold the pass
    return None


def drop_frames(error: BaseException) -> None:
    """Clears the local variables of the frames that an error and its causes went through."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            traceback.clear_frames(link.__traceback__)
            waiting += [link.__cause__, link.__context__]


def free() -> None:
    """Returns unreferenced memory to the device; must not run inside an exception handler."""
    gc.collect()
    torch.cuda.empty_cache()
