"""Messages between a process and its cell: a length of 8 bytes, then JSON, over a pair of sockets."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

MOST_BYTES = 256 << 20
"""Bytes of a message."""

_LENGTH = struct.Struct("<Q")


class ClosedError(Exception):
    """The other side has ended, or sends what is not a message."""


class SilentError(ClosedError):
    """The other side has said nothing within the time that the socket allows."""


def send(place: int, message: Any) -> None:
    """Writes a message to a descriptor.

    Raises:
        ClosedError: The other side has ended.
        TypeError: The message is not JSON.
        ValueError: The message is longer than `MOST_BYTES`, or not JSON.
    """
    send_bytes(place, json.dumps(message, allow_nan=False).encode())


def send_bytes(place: int, data: bytes) -> None:
    """Writes a message that is JSON already; errors as in `send`."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"a message of {len(data):,} bytes, the limit is {MOST_BYTES:,}")
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        try:
            left = left[os.write(place, left) :]
        except OSError as error:
            raise ClosedError(str(error)) from None


def receive(place: int) -> Any:
    """Reads a message from a descriptor.

    Raises:
        ClosedError: The other side has ended, is silent, or what it sent is not a message.
    """
    try:
        return json.loads(receive_bytes(place))
    except (ValueError, RecursionError) as error:
        raise ClosedError(f"not a message: {error}") from None


def receive_bytes(place: int) -> bytes:
    """Reads a message and returns its bytes, which may be anything; errors as in `receive`."""
    (length,) = _LENGTH.unpack(_exactly(place, _LENGTH.size))
    if length > MOST_BYTES:
        raise ClosedError(f"a message of {length:,} bytes, the limit is {MOST_BYTES:,}")
    return _exactly(place, length)


def _exactly(place: int, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = os.read(place, min(count - len(parts), 1 << 20))
        except BlockingIOError:
            raise SilentError("it says nothing") from None
        except OSError as error:
            raise ClosedError(str(error)) from None
        if not part:
            raise ClosedError("it has ended")
        parts += part
    return bytes(parts)
