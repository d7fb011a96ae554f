"""A line on stderr every few seconds while a command waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import click

EVERY_SECONDS = 5.0


@asynccontextmanager
async def periodic_line(line: Callable[[], str]) -> AsyncIterator[None]:
    """Writes a line to stderr every few seconds for as long as the block runs."""

    async def write() -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            click.echo(line(), err=True)

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
