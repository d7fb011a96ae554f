"""A TCP proxy that treats connections badly: drops them, delays them, half-closes them."""

from __future__ import annotations

import asyncio
import contextlib
import random


class Proxy:
    """Stands before `port`; use it as an async context manager that gives its own port.

    Args:
        port: What it stands before.
        drop: Share of chunks at which the connection is cut.
        delay: Longest delay of a chunk, seconds.
        half_close: Share of chunks at which one direction is closed.
        seed: Of its whims.
    """

    def __init__(
        self, port: int, *, drop: float = 0.0, delay: float = 0.0, half_close: float = 0.0, seed: int = 0
    ) -> None:
        self.port, self.drop, self.delay, self.half_close = port, drop, delay, half_close
        self.cut = 0
        self._draw = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, out = await asyncio.open_connection("127.0.0.1", self.port)
        for task in (self._pass(reader, out, writer), self._pass(upstream, writer, out)):
            pumping = asyncio.create_task(task)
            self._tasks.add(pumping)
            pumping.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            while chunk := await reader.read(4096):
                if self.delay:
                    await asyncio.sleep(self._draw.random() * self.delay)
                whim = self._draw.random()
                if whim < self.drop:
                    self.cut += 1
                    back.transport.abort()
                    break
                if whim < self.drop + self.half_close:
                    self.cut += 1
                    to.write_eof()
                    return
                to.write(chunk)
                await to.drain()
        to.close()
