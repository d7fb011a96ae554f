"""What is waited for, said while it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import click

EVERY_SECONDS = 5.0


@asynccontextmanager
async def telling(line: Callable[[], str]) -> AsyncIterator[None]:
    """Writes a line to stderr every few seconds for as long as the block runs."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            click.echo(line(), err=True)

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
