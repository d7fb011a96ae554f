"""The server of `orchestrator view`: listens on this machine only, and reads only."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson

from lyncean.errors import UserError
from orchestrator.compare.result import OtherQuestionsError, compare_scores
from orchestrator.compare.scores import Scores, read
from orchestrator.report import comparison
from orchestrator.report.live.bucket import Bucket, FetchingError, RemoteFollowed
from orchestrator.report.live.followed import Folder, Followed
from orchestrator.report.live.local import LocalHandler, listen
from orchestrator.report.live.logs import ToolLog, ToolLogs
from orchestrator.report.live.remote_trainings import RemoteTrainings
from orchestrator.report.live.trainings import ADDRESS, Trainings
from orchestrator.report.page import SCRIPTS, document, policy, render
from orchestrator.run_folder.reader import Run

_HTML = "text/html; charset=utf-8"
_VIEW = ("dom.js", "view.js")
_KEPT_PAGES = 3
_KEPT_SCORES = 8

Viewed = Followed | ToolLog | RemoteFollowed
"""Subject of a row of the table."""

T = TypeVar("T")
Kept = dict[Hashable, tuple[Hashable, T]]
"""Values, each with the state of its source; the most recently used one is last."""

_RUN = re.compile(r"/runs/(?P<name>.+?)/(?P<rest>|images/(?P<image>[0-9a-f]{64}))")


class Site:
    """State of the server: the folder, and recent pages, kept while their runs do not change."""

    def __init__(self, path: Path | Bucket) -> None:
        self.folder = Folder(path) if isinstance(path, Path) else path
        self._logs = ToolLogs(path) if isinstance(path, Path) else None
        self._trainings = Trainings(path) if isinstance(path, Path) else RemoteTrainings(path)
        self._pages: Kept[bytes] = {}
        self._scores: Kept[Scores] = {}
        self._lock, self._rendering = Lock(), Lock()

    def runs(self) -> bytes:
        """Returns the state of all runs as JSON."""
        with self._lock:
            states = [{**run.state(), "address": _address(name)} for name, run in self._runs().items()]
        return orjson.dumps(states)

    def _runs(self) -> dict[str, Viewed]:
        logs = self._logs.runs() if self._logs else {}
        return {**self.folder.runs(), **logs}

    def find(self, name: str) -> Viewed | None:
        """Returns a run by its name; None for anything but the name of a run in the folder."""
        with self._lock:
            return self._runs().get(name)

    def page(self, run: Viewed) -> bytes:
        """Returns a run's report, made anew when the run has grown."""
        return self._page(run.name, [run], lambda: render(run.run(), home="/"))

    def comparison(self, runs: Sequence[Viewed], *, other_data: bool) -> bytes:
        """Returns the page that compares runs with the first of them, made anew when one has grown.

        Raises:
            UserError: They cannot be compared, or one is damaged.
        """
        folders = [f"/{_address(run.name)}" for run in runs]

        def make() -> str:
            compared = compare_scores([self._read(run) for run in runs], other_data=other_data)
            return comparison.render(compared, folders, home="/")

        return self._page((*(run.name for run in runs), other_data), runs, make)

    def trainings(self) -> list[tuple[str, str]]:
        """Returns name and address of the page of each suite with checkpoints."""
        return self._trainings.links()

    def series(self, names: Sequence[str]) -> bytes | None:
        """Returns the page of trainings on one axis, made anew when one has grown; None where there is none of them.

        Raises:
            FetchingError: Their runs are being fetched.
            UserError: One is damaged.
        """
        trainings = self._trainings
        shown = trainings.read(names)
        if not shown:
            return None

        def make() -> bytes:  # reads again, so that no page is kept that is older than its stamp
            return trainings.render(trainings.read(names)).encode()

        with self._rendering:
            key = (ADDRESS, *(one.name for one in shown))
            return _kept(self._pages, _KEPT_PAGES, key, trainings.stamp(shown), make)

    def _read(self, run: Viewed) -> Scores:
        """Returns a run's scores: reading them is what takes long where there are many."""
        return _kept(self._scores, _KEPT_SCORES, run.name, run.stamp(), lambda: read(run.run()))

    def _page(self, key: Hashable, runs: Sequence[Viewed], make: Callable[[], str]) -> bytes:
        with self._rendering:
            stamp = tuple(run.stamp() for run in runs)
            return _kept(self._pages, _KEPT_PAGES, key, stamp, lambda: make().encode())


def _kept(known: Kept[T], most: int, key: Hashable, stamp: Hashable, make: Callable[[], T]) -> T:
    """Returns a value from `known`, made anew when its stamp has changed; keeps the `most` used last."""
    page = known.pop(key, None)
    if page is None or page[0] != stamp:
        page = (stamp, make())
    known[key] = page
    if len(known) > most:
        del known[next(iter(known))]
    return page[1]


class Handler(LocalHandler):
    """Answers GET and HEAD."""

    server_version = "lyncean-view"

    def __init__(self, *args: object, site: Site) -> None:
        self.site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def answer(self, path: str) -> None:
        """Serves the index, its data, a run's page or one of its images."""
        if path == "/":
            page = document(
                "view.html",
                scripts=_VIEW,
                connect=True,
                folder=self.site.folder.title,
                trainings=self.site.trainings(),
            )
            self._page(page.encode(), _VIEW, connect=True)
        elif path == "/api/runs":
            runs, problem = self.site.runs(), self.site.folder.problem
            status = HTTPStatus.BAD_GATEWAY if problem else HTTPStatus.OK
            self.send(status, problem.encode() or runs, "text/plain" if problem else "application/json")
        elif path == "/compare/":
            self._compare(parse_qs(urlsplit(self.path).query))
        elif path == f"/{ADDRESS}":
            self._series(parse_qs(urlsplit(self.path).query).get("of", ()))
        elif match := _RUN.fullmatch(path):
            self._run(self.site.find(match["name"]), match["image"])
        else:
            self.missing()

    def _run(self, run: Viewed | None, image: str | None) -> None:
        if run is None:
            self.missing()
        elif image is None:
            try:
                self._page(self.site.page(run), SCRIPTS)
            except FetchingError as error:
                self._message(HTTPStatus.ACCEPTED, run.name, str(error), again=True)
            except UserError as error:
                self._message(HTTPStatus.INTERNAL_SERVER_ERROR, f"{run.name} cannot be read", str(error))
        else:
            self.image(Run(run.path, {}, {}, run.name), image)

    def _series(self, names: Sequence[str]) -> None:
        try:
            page = self.site.series(names)
        except FetchingError as error:
            self._message(HTTPStatus.ACCEPTED, ", ".join(names), str(error), again=True)
            return
        except UserError as error:
            self._message(HTTPStatus.INTERNAL_SERVER_ERROR, "This training cannot be read", str(error))
            return
        if page is None:
            self.missing()
        else:
            self._page(page, ())

    def _compare(self, query: Mapping[str, Sequence[str]]) -> None:
        names, other_data = query.get("run", ()), "other_data" in query
        runs = [run for name in names if (run := self.site.find(name))]
        if len(runs) < len(names) or len(runs) < 2:
            self._message(HTTPStatus.NOT_FOUND, "Nothing to compare", "choose two runs or more of this folder")
            return
        try:
            self._page(self.site.comparison(runs, other_data=other_data), comparison.SCRIPTS)
        except FetchingError as error:
            self._message(HTTPStatus.ACCEPTED, "Comparison", str(error), again=True)
        except OtherQuestionsError as error:
            link = "?" + urlencode({"run": names, "other_data": "1"}, doseq=True)
            self._message(HTTPStatus.CONFLICT, "Other questions", str(error), link)
        except UserError as error:
            self._message(HTTPStatus.CONFLICT, "These runs cannot be compared", str(error))

    def _page(self, page: bytes, scripts: Sequence[str], *, connect: bool = False) -> None:
        self.send(HTTPStatus.OK, page, _HTML, policy(scripts, connect=connect))

    def _message(self, status: HTTPStatus, title: str, message: str, link: str = "", *, again: bool = False) -> None:
        page = document("message.html", title=title, message=message, link=link, again=again)
        self.send(status, page.encode(), _HTML, policy())


def _address(name: str) -> str:
    """Returns where a run's page is, seen from the list."""
    return f"runs/{quote(name)}/"


def serve(path: Path | Bucket, port: int) -> ThreadingHTTPServer:
    """Returns a server over the runs of a folder or below a URL, bound but not serving yet; port 0 picks a free one.

    Raises:
        OSError: The port is taken.
    """
    return listen(partial(Handler, site=Site(path)), port)
