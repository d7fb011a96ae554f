"""An OpenAI-compatible address inside this process, for code that asks a judge with its own client."""

from __future__ import annotations

import asyncio.selector_events
import errno
import json
import os
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

MOST_BYTES = 256 << 20
"""Limit of a request in bytes."""

ADDRESS = ("127.0.0.1", 1)
"""An address without a listener: sockets of this process that connect to it reach the judge, others fail."""

URL = f"http://{ADDRESS[0]}:{ADDRESS[1]}/v1"

TextAndModel = tuple[str, str]
"""A reply's text and its model."""


def serve(answer: Callable[[Any], TextAndModel | None]) -> str:
    """Serves chat completions to this process without network connections, which a cell refuses; returns the base URL.

    Args:
        answer: Returns the reply to a request's body, or None, which becomes a refusal that clients do not retry.
    """
    handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
    connect, connect_ex, setsockopt = socket.socket.connect, socket.socket.connect_ex, socket.socket.setsockopt

    def connecting(self: socket.socket, address: Any) -> None:
        if _is_judge(address):
            _join(self, handler)
        else:
            connect(self, address)

    def connecting_ex(self: socket.socket, address: Any) -> int:
        if not _is_judge(address):
            return connect_ex(self, address)
        _join(self, handler)
        return 0

    def setting(self: socket.socket, *arguments: Any) -> None:
        try:
            setsockopt(self, *arguments)
        except OSError as error:  # TCP options, which a socket pair does not have
            if error.errno != errno.EOPNOTSUPP:
                raise

    socket.socket.connect, socket.socket.connect_ex = connecting, connecting_ex  # type: ignore[method-assign, assignment]
    socket.socket.setsockopt = setting  # type: ignore[method-assign, assignment]
    # sendmsg may name an address, so a cell refuses it; without it asyncio sends as before Python 3.12.
    asyncio.selector_events._HAS_SENDMSG = False  # type: ignore[attr-defined]
    return URL


def _is_judge(address: Any) -> bool:
    return isinstance(address, tuple) and address[:2] == ADDRESS


def _join(asking: socket.socket, handler: type[_Handler]) -> None:
    """Replaces a socket by one end of a socket pair and serves the other end."""
    client_end, server_end = socket.socketpair()
    with client_end:
        os.dup2(client_end.fileno(), asking.fileno(), inheritable=False)
    os.set_blocking(asking.fileno(), asking.gettimeout() is None)
    threading.Thread(target=_serve, args=(server_end, handler), name="judge", daemon=True).start()


def _serve(connection: socket.socket, handler: type[_Handler]) -> None:
    with connection:
        try:
            handler(connection, ADDRESS, None)  # type: ignore[arg-type]
        except OSError:
            return  # the client closed the connection


class _Handler(BaseHTTPRequestHandler):
    """Answers chat completions at any path below the base URL."""

    protocol_version = "HTTP/1.1"
    answer: Callable[[Any], TextAndModel | None]

    def do_GET(self) -> None:
        """Lists one model, for code that checks for its judge."""
        self._send(200, {"object": "list", "data": [{"id": "judge", "object": "model"}]})

    def do_POST(self) -> None:
        """Sends the judge's reply, or refuses."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > MOST_BYTES:
            self.close_connection = True
            self._send(413, {"error": {"message": "the request is too large"}})
            return
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            body = None
        reply = self.answer(body)
        if reply is None:
            self._send(400, {"error": {"message": "no reply yet", "type": "invalid_request_error"}})
            return
        message = {"role": "assistant", "content": reply[0]}
        self._send(
            200,
            {
                "id": "chatcmpl-judge",
                "object": "chat.completion",
                "created": 0,
                "model": reply[1],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
                "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            },
        )

    def _send(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("x-should-retry", "false")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""
