"""An MCP server as a child process: a line of its stdout is a message, up to a bound; its environment is minimal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from lyncean.errors import printable

log = logging.getLogger(__name__)

MAX_MESSAGE = 64 * 1024 * 1024
"""Limit of a server's message in bytes."""
_GRACE = 2.0
"""Seconds that it has to exit after its stdin is closed, and again after SIGTERM."""
_LINE_OF_LOG = 2000


@contextlib.asynccontextmanager
async def child(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """Starts a server, yields its message streams like a transport of the package `mcp`, and ends it.

    Args:
        command: The program's path and arguments.
        environment: Its complete environment.

    Raises:
        OSError: It cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True, limit=MAX_MESSAGE
    )
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, taken = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group, incoming, received, sent, taken:
        group.start_soon(_read, process, incoming)
        group.start_soon(_write, process, taken, incoming)
        group.start_soon(_log, process)
        try:
            yield received, sent
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            group.cancel_scope.cancel()


async def _read(process: Process, incoming: Any) -> None:
    """Forwards the server's messages until it ends or writes one that is too long."""
    assert process.stdout
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with incoming:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    log.error("the MCP server wrote a message of more than %s bytes: it is ended", f"{MAX_MESSAGE:,}")
                    break
                if not line:
                    break
                if line.strip():
                    await incoming.send(_message(line))
    _signal(process, signal.SIGTERM)


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(process: Process, taken: Any, incoming: Any) -> None:
    assert process.stdin
    try:
        async for message in taken:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        await incoming.aclose()


async def _log(process: Process) -> None:
    """Logs the server's stderr, so that its control characters do not reach a terminal."""
    assert process.stderr
    while block := await process.stderr.read(_LINE_OF_LOG):
        for line in filter(str.strip, block.decode(errors="replace").splitlines()):
            log.info("MCP server: %s", printable(line))


async def _end(process: Process) -> None:
    assert process.stdin
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)
        _signal(process, number)  # also after it has ended, since its children may still be in its group
    await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
