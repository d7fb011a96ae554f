"""The server behind `orchestrator view`: on this machine only, and it only reads."""

from __future__ import annotations

import re
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote, urlsplit

import orjson

from lyncean.errors import UserError
from lyncean.media import UNKNOWN, clip_type, media_type
from orchestrator.report.live.followed import Folder, Followed
from orchestrator.report.page import SCRIPTS, document, policy, render
from orchestrator.run_folder.reader import Run

HOST = "127.0.0.1"

_NOTHING = "default-src 'none'"
_VIEW = ("dom.js", "view.js")
_KEPT_PAGES = 3

_RUN = re.compile(r"/runs/(?P<name>.+?)/(?P<rest>|images/(?P<image>[0-9a-f]{64}))")


class Site:
    """What is served: the folder, and the pages looked at last as long as their runs do not change."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self._pages: dict[str, tuple[tuple[float, ...], bytes]] = {}
        self._lock, self._rendering = Lock(), Lock()

    def runs(self) -> bytes:
        """Returns the state of all runs as JSON."""
        with self._lock:
            found = [{**run.state(), "address": f"runs/{quote(name)}/"} for name, run in self.folder.runs().items()]
        return orjson.dumps(found)

    def find(self, name: str) -> Followed | None:
        """Returns a run by its name. Whatever is no name of a run found in the folder is nothing."""
        with self._lock:
            return self.folder.runs().get(name)

    def page(self, run: Followed) -> bytes:
        """Returns a run's report, made anew when the run has grown."""
        with self._rendering:
            stamp = run.stamp()
            known = self._pages.pop(run.name, None)
            if known is None or known[0] != stamp:
                known = (stamp, render(run.run()).encode())
            self._pages[run.name] = known
            if len(self._pages) > _KEPT_PAGES:
                del self._pages[next(iter(self._pages))]
        return known[1]


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    server_version = "lyncean-view"
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: object, site: Site) -> None:
        self.site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Serves the index, its data, a run's page or one of its images."""
        # A page elsewhere could reach this server under a name of its own that resolves to this machine.
        if _name(self.headers.get("Host") or "") not in (HOST, "localhost"):
            self._send(HTTPStatus.FORBIDDEN, b"this page is served to this machine only\n", "text/plain")
            return
        path = unquote(urlsplit(self.path).path)
        if path == "/":
            page = document("view.html", scripts=_VIEW, connect=True, folder=str(self.site.folder.path))
            self._send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", policy(_VIEW, connect=True))
        elif path == "/api/runs":
            self._send(HTTPStatus.OK, self.site.runs(), "application/json")
        elif found := _RUN.fullmatch(path):
            self._run(self.site.find(found["name"]), found["image"])
        else:
            self._missing()

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def _run(self, run: Followed | None, image: str | None) -> None:
        if run is None:
            self._missing()
        elif image is None:
            try:
                page = self.site.page(run)
            except UserError as error:
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode(), "text/plain; charset=utf-8")
                return
            self._send(HTTPStatus.OK, page, "text/html; charset=utf-8", policy(SCRIPTS))
        elif path := Run(run.path, {}, {}, run.name).image(image):
            data = path.read_bytes()
            kinds = (media_type(data), clip_type("video", data), clip_type("audio", data))
            kind = next((each for each in kinds if each != UNKNOWN), UNKNOWN)
            self._send(HTTPStatus.OK, data, kind, keep=True)
        else:
            self._missing()

    def _missing(self) -> None:
        self._send(HTTPStatus.NOT_FOUND, b"there is nothing here\n", "text/plain")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, allowed: str = _NOTHING, *, keep: bool = False) -> None:
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


def serve(path: Path, port: int) -> ThreadingHTTPServer:
    """Returns a server over a folder of runs, bound but not serving yet.

    Args:
        path: The folder.
        port: Port; 0 picks a free one.

    Raises:
        OSError: The port is taken.
    """
    server = ThreadingHTTPServer((HOST, port), partial(Handler, site=Site(path)))
    server.daemon_threads = True
    return server
