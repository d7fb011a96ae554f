"""Messages between a process and its cell: a length of 8 bytes, then JSON, over a socket pair.

File descriptors travel with the length, to the cell only: its seccomp filter forbids sending them.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 256 << 20
"""Bytes of a message."""
MOST_DESCRIPTORS = 8
"""Descriptors beside a message."""

_LENGTH = struct.Struct("<Q")
_LOOKS_EVERY = 100
"""Milliseconds."""


class ClosedError(Exception):
    """The other side has ended, or sent something other than a message."""


class SilentError(ClosedError):
    """The other side sent nothing within the socket's timeout."""


def send(descriptor: int, message: Any) -> None:
    """Writes a message to a descriptor.

    Raises:
        ClosedError: The other side has ended.
        TypeError: The message is not JSON.
        ValueError: The message is longer than `MOST_BYTES`, or not JSON.
    """
    send_bytes(descriptor, json.dumps(message, allow_nan=False).encode())


def send_bytes(descriptor: int, data: bytes) -> None:
    """Writes a message that is JSON already; errors as in `send`."""
    _write(descriptor, _LENGTH.pack(_counted(data)) + data)


def send_beside(connection: socket.socket, message: Any, descriptors: Sequence[int]) -> None:
    """Writes a message with file descriptors, which the other side receives as duplicates; errors as in `send`."""
    data = json.dumps(message, allow_nan=False).encode()
    length = _LENGTH.pack(_counted(data))
    try:
        sent = socket.send_fds(connection, [length], descriptors)
    except OSError as error:
        raise ClosedError(str(error)) from None
    _write(connection.fileno(), length[sent:] + data)


def _counted(data: bytes) -> int:
    if len(data) > MOST_BYTES:
        raise ValueError(f"a message of {len(data):,} bytes, the limit is {MOST_BYTES:,}")
    return len(data)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except OSError as error:
            raise ClosedError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of a message from a process that may mean harm.

    Attributes:
        late: Deadline of the whole message, in `time.monotonic` time.
        most: Largest size of the message in bytes.
        meanwhile: Called about ten times a second while nothing arrives; may raise.
    """

    late: float
    most: int
    meanwhile: Callable[[], None]


def receive(descriptor: int, patience: Patience | None = None) -> Any:
    """Reads a message from a descriptor.

    Raises:
        ClosedError: The other side has ended, is silent, or sent something other than a message.
    """
    try:
        begin = _exactly(descriptor, _LENGTH.size, patience)
        return json.loads(_content(descriptor, begin, patience))
    except (ValueError, RecursionError) as error:
        raise ClosedError(f"not a message: {error}") from None


def receive_bytes(descriptor: int) -> bytes:
    """Reads a message and returns its bytes without parsing them; errors as in `receive`."""
    return _content(descriptor, _exactly(descriptor, _LENGTH.size))


def receive_beside(connection: socket.socket) -> tuple[Any, list[int]]:
    """Reads a message and the descriptors beside it; errors as in `receive`."""
    try:
        begin, descriptors, _, _ = socket.recv_fds(
            connection, _LENGTH.size, MOST_DESCRIPTORS, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        )
        descriptor = connection.fileno()
        begin = begin and begin + _exactly(descriptor, _LENGTH.size - len(begin))
        if not begin:
            raise ClosedError("it has ended")
        return json.loads(_content(descriptor, begin)), descriptors
    except (OSError, ValueError, RecursionError) as error:
        raise ClosedError(f"not a message: {error}") from None


def _content(descriptor: int, begin: bytes, patience: Patience | None = None) -> bytes:
    (length,) = _LENGTH.unpack(begin)
    most = patience.most if patience else MOST_BYTES
    if length > most:
        raise ClosedError(f"a message of {length:,} bytes, the limit is {most:,}")
    return _exactly(descriptor, length, patience)


def _await(descriptor: int, patience: Patience) -> None:
    side = select.poll()
    side.register(descriptor, select.POLLIN)
    while not side.poll(_LOOKS_EVERY) and time.monotonic() <= patience.late:
        patience.meanwhile()
    if time.monotonic() > patience.late:  # a message that trickles in byte by byte never ends
        raise SilentError("it takes too long")


def _exactly(descriptor: int, count: int, patience: Patience | None = None) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        try:
            if patience:
                _await(descriptor, patience)
            part = os.read(descriptor, min(count - len(parts), 1 << 20))
        except BlockingIOError:
            raise SilentError("it says nothing") from None
        except OSError as error:
            raise ClosedError(str(error)) from None
        if not part:
            raise ClosedError("it has ended")
        parts += part
    return bytes(parts)
