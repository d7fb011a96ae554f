"""HTTP for pages that are served to this machine only."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from lyncean.media.types import UNKNOWN, clip_type, media_type
from orchestrator.run_folder.reader import Run

HOST = "127.0.0.1"

_NOTHING = "default-src 'none'"


class LocalHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD by `answer`, if the request names this machine."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Serves a path."""
        if self.is_local():
            self.answer(unquote(urlsplit(self.path).path))

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def answer(self, path: str) -> None:
        """Serves what is at a path."""
        raise NotImplementedError

    def is_local(self) -> bool:
        """Returns whether the request names this machine; refuses it otherwise.

        A page elsewhere could reach this server under a name of its own that resolves to this machine.
        """
        if _name(self.headers.get("Host") or "") in (HOST, "localhost"):
            return True
        self.send(HTTPStatus.FORBIDDEN, b"this page is served to this machine only\n", "text/plain")
        return False

    def image(self, run: Run, name: str) -> None:
        """Serves an image or clip of a run."""
        path = run.image(name)
        if path is None:
            self.missing()
            return
        data = path.read_bytes()
        kinds = (media_type(data), clip_type("video", data), clip_type("audio", data))
        kind = next((kind_of_log for kind_of_log in kinds if kind_of_log != UNKNOWN), UNKNOWN)
        self.send(HTTPStatus.OK, data, kind, keep=True)

    def missing(self) -> None:
        """Says that there is nothing at the path."""
        self.send(HTTPStatus.NOT_FOUND, b"there is nothing here\n", "text/plain")

    def send(self, status: HTTPStatus, body: bytes, kind: str, allowed: str = _NOTHING, *, keep: bool = False) -> None:
        """Sends a body of a media type with the content security policy `allowed`; `keep` lets a browser keep it."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        # Beside the page's own: only a header can forbid that the page is framed.
        self.send_header("Content-Security-Policy", f"{allowed}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        # An image is named by its content and never changes.
        self.send_header("Cache-Control", "private, max-age=86400, immutable" if keep else "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the terminal quiet."""


def _name(host: str) -> str:
    """Returns the name in a Host header in small letters, its port left out; "" where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def listen(handler: Any, port: int) -> ThreadingHTTPServer:
    """Returns a server on this machine, bound but not serving yet; port 0 picks a free one.

    Raises:
        OSError: The port is taken.
    """
    server = ThreadingHTTPServer((HOST, port), handler)
    server.daemon_threads = True
    return server
