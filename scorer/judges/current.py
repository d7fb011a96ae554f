"""The judge of a scorer whose metrics are computed, for metrics whose code asks one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from scorer.judges.base import Judge

T = TypeVar("T")

CURRENT: ContextVar[tuple[Judge | None, asyncio.AbstractEventLoop] | None] = ContextVar("current", default=None)
"""The judge, and the loop on which it is asked."""


async def summarized(finish: Callable[[], T], judge: Judge | None) -> T:
    """Computes metrics in a thread, where they may ask a judge."""
    token = CURRENT.set((judge, asyncio.get_running_loop()))
    try:
        return await asyncio.to_thread(finish)
    finally:
        CURRENT.reset(token)
