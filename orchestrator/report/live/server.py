"""The server behind `orchestrator view`: on this machine only, and it only reads."""

from __future__ import annotations

import re
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import quote

import orjson

from lyncean.errors import UserError
from orchestrator.report.live.followed import Folder, Followed
from orchestrator.report.live.local import LocalHandler, listen
from orchestrator.report.page import document, policy, render
from orchestrator.run_folder.reader import Run

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


class Handler(LocalHandler):
    """Answers GET and HEAD."""

    server_version = "lyncean-view"

    def __init__(self, *args: object, site: Site) -> None:
        self.site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def answer(self, path: str) -> None:
        """Serves the index, its data, a run's page or one of its images."""
        if path == "/":
            page = document("view.html", script="view.js", connect=True, folder=str(self.site.folder.path))
            self.send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", policy("view.js", connect=True))
        elif path == "/api/runs":
            self.send(HTTPStatus.OK, self.site.runs(), "application/json")
        elif found := _RUN.fullmatch(path):
            self._run(self.site.find(found["name"]), found["image"])
        else:
            self.missing()

    def _run(self, run: Followed | None, image: str | None) -> None:
        if run is None:
            self.missing()
        elif image is None:
            try:
                page = self.site.page(run)
            except UserError as error:
                self.send(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode(), "text/plain; charset=utf-8")
                return
            self.send(HTTPStatus.OK, page, "text/html; charset=utf-8", policy("report.js"))
        else:
            self.image(Run(run.path, {}, {}, run.name), image)


def serve(path: Path, port: int) -> ThreadingHTTPServer:
    """Returns a server over a folder of runs, bound but not serving yet.

    Args:
        path: The folder.
        port: Port; 0 picks a free one.

    Raises:
        OSError: The port is taken.
    """
    return listen(partial(Handler, site=Site(path)), port)
