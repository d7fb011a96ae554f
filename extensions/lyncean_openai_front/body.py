"""Bodies of requests, read as far as a limit of size and of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import grpc
from starlette.requests import Request

from lyncean_openai_front.errors import BodyTooLarge, BodyTooSlow

BODY_WITHIN = 30.0
"""Seconds for a body, beside a second for each `SLOWEST` bytes that have arrived."""
SLOWEST = 50_000


async def chunks(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """Yields the body.

    Raises:
        BodyTooLarge: If it is, or says that it is, beyond `most` bytes.
        BodyTooSlow: If it arrives with fewer than `SLOWEST` bytes a second.
    """
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > most:
        raise too_large(most)
    size = 0
    stream = request.stream()
    began = asyncio.get_running_loop().time()
    while True:
        try:
            async with asyncio.timeout_at(began + BODY_WITHIN + size / SLOWEST):
                chunk = await anext(stream, None)
        except TimeoutError:
            late = f"{size:,} bytes of the body arrived in time: send at least {SLOWEST:,} a second"
            raise BodyTooSlow(grpc.StatusCode.DEADLINE_EXCEEDED, "request_timeout", late) from None
        if chunk is None:
            return
        size += len(chunk)
        if size > most:
            raise too_large(most)
        yield chunk


def too_large(most: int) -> BodyTooLarge:
    """Returns the failure of a request with a body beyond `most` bytes."""
    return BodyTooLarge(grpc.StatusCode.INVALID_ARGUMENT, "request_too_large", f"the body is beyond {most:,} bytes")


async def read(request: Request, most: int) -> bytes:
    """Returns the body; raises BodyTooLarge as `chunks` does."""
    return b"".join([chunk async for chunk in chunks(request, most)])
