"""The judge of the scorer, for metrics whose code asks one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from scorer.judges.base import Judge

T = TypeVar("T")

CURRENT: ContextVar[tuple[Judge | None, asyncio.AbstractEventLoop] | None] = ContextVar("current", default=None)
"""The judge and its event loop; set while metrics are computed."""


async def summarized(finish: Callable[[], T], judge: Judge | None) -> T:
    """Computes metrics in a thread, so that they may block on a judge that runs on the event loop."""
    token = CURRENT.set((judge, asyncio.get_running_loop()))
    try:
        return await asyncio.to_thread(finish)
    finally:
        CURRENT.reset(token)
