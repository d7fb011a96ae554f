"""Bodies of requests, read as far as a limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import grpc
from starlette.requests import Request

from lyncean_openai_front.errors import BodyTooLarge


async def chunks(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """Yields the body.

    Raises:
        BodyTooLarge: If it is, or says that it is, beyond `most` bytes.
    """
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > most:
        raise too_large(most)
    size = 0
    async for chunk in request.stream():
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
