"""An OpenAI-compatible address on loopback for code that asks a judge by its own client."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scorer.judges import Reply

MOST_BYTES = 256 << 20
"""Size of a request."""


def serve(answer: Callable[[Any], Reply | None]) -> str:
    """Serves chat completions until the process ends; returns the base URL.

    A secret in its path keeps other processes of the machine from asking.

    Args:
        answer: Gives the reply to a request's body, or None, which is refused as a request that no retry helps.
    """
    secret = secrets.token_urlsafe(16)
    handler = type("Handler", (_Handler,), {"secret": secret, "answer": staticmethod(answer)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="judge-address", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/{secret}/v1"


class _Handler(BaseHTTPRequestHandler):
    """Answers chat completions at whatever path a client makes of the base URL."""

    protocol_version = "HTTP/1.1"
    secret = ""
    answer: Callable[[Any], Reply | None]

    def do_GET(self) -> None:
        """Lists one model, for code that looks whether its judge is there."""
        if not self.path.startswith(f"/{self.secret}/"):
            self._send(404, {"error": {"message": "there is nothing here"}})
            return
        self._send(200, {"object": "list", "data": [{"id": "judge", "object": "model"}]})

    def do_POST(self) -> None:
        """Gives the judge's reply, or refuses."""
        length = int(self.headers.get("Content-Length") or 0)
        if not self.path.startswith(f"/{self.secret}/") or length > MOST_BYTES:
            self.close_connection = True
            self._send(404, {"error": {"message": "there is nothing here"}})
            return
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            body = None
        reply = self.answer(body)
        if reply is None:
            self._send(400, {"error": {"message": "no reply yet", "type": "invalid_request_error"}})
            return
        message = {"role": "assistant", "content": reply.data["text"]}
        self._send(
            200,
            {
                "id": "chatcmpl-judge",
                "object": "chat.completion",
                "created": 0,
                "model": reply.model,
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
        """Says nothing."""
