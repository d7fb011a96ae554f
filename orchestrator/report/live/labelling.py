"""The server of `orchestrator label`: shows items without their verdicts and stores a person's labels."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from threading import Lock
from typing import Any, Literal

import msgspec
import orjson
from msgspec import UNSET, Struct, UnsetType

from lyncean.errors import UserError
from orchestrator.errors import ConfigError
from orchestrator.report.labels import draw
from orchestrator.report.live.local import HOST, LocalHandler, listen
from orchestrator.report.page import document, policy
from orchestrator.run_folder import labels as store
from orchestrator.run_folder.lines import LabelLine
from orchestrator.run_folder.reader import Run

TOKEN = "X-Lyncean-Token"  # noqa: S105 - the name of a header
_SCRIPTS = ("label.js",)
_LONGEST = 4096
"""Bytes of a request's body at most."""


class LabelRequest(Struct, forbid_unknown_fields=True):
    """A label sent by the page."""

    key: str
    mark: Literal["scored", "unclear", "undone"]
    score: float | UnsetType = UNSET
    kind: str = ""


class Sheet:
    """The items that one person labels, and what they have said so far.

    Args:
        count: Units of the sample.
        person: Who labels.
        seed: Of the sample; None for that of the labels that are there, else 0.
        kinds: Kinds of error, of which a wrong answer gets one; none for right and wrong alone.

    Attributes:
        keys: The items with an answer, in the order drawn.
        marks: What the person said of them.

    Raises:
        ConfigError: There is nothing to label, or labels of another seed are there.
        RunLogError: A label is damaged.
    """

    def __init__(
        self, run: Run, task: str, count: int, person: str, seed: int | None, kinds: Sequence[str] = ()
    ) -> None:
        known, labels = store.read(run.path)
        if seed is not None and known not in (None, seed):
            raise ConfigError(f"the labels of {run.path} were drawn with --seed {known}: leave --seed out")
        self.run, self.person, self.kinds = run, person, kinds
        self.seed = (seed or 0) if known is None else known
        self.drawn = draw(run, task, self.seed)
        self.sample = self.drawn.units[:count]
        self.keys = [key for unit in self.sample if unit.answered for key in unit.keys]
        self.marks: dict[str, LabelLine] = {
            key: line for key, line in labels.get(person, {}).items() if key in set(self.keys)
        }
        self.token = secrets.token_urlsafe()
        self._lock = Lock()

    def state(self) -> bytes:
        """Returns what the page needs to know of all items, as JSON."""
        with self._lock:
            marks = [_mark(self.marks.get(key)) for key in self.keys]
        return orjson.dumps({"keys": self.keys, "marks": marks})

    def item(self, index: int) -> bytes | None:
        """Returns what a person may see of an item before it is labelled, as JSON: nothing that was read out of it."""
        if not 0 <= index < len(self.keys):
            return None
        (item,) = self.run.read([self.keys[index]])
        request, response = item.response.get("request") or {}, item.response.get("response") or {}
        return orjson.dumps(
            {
                "key": item.key,
                "messages": request.get("messages", ()),
                "answer": response.get("parts", ()),
                "targets": item.verdict.get("targets") or item.scoring.get("targets", ()),
            }
        )

    def record(self, request: LabelRequest) -> None:
        """Stores what the person says of an item; it is on the disk when this returns.

        Raises:
            ValueError: It is nothing that can be said of an item of the sample.
            RunLogError: It cannot be written.
        """
        if request.key not in self.keys:
            raise ValueError("no item of the sample has this key")
        if (request.mark == "scored") is (request.score is UNSET):
            raise ValueError("an item that is scored needs a score, another has none")
        if isinstance(request.score, float) and not 0 <= request.score <= 1:
            raise ValueError("a score is from 0 to 1")
        if bool(request.kind) is not (bool(self.kinds) and request.score == 0) or request.kind not in ("", *self.kinds):
            raise ValueError("a wrong answer has one of the kinds of error that the page offers, another has none")
        time_stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        line = LabelLine(
            key=request.key,
            by=self.person,
            mark=request.mark,
            score=request.score,
            kind=request.kind,
            seed=self.seed,
            given=time_stamp,
        )
        with self._lock:
            store.append(self.run.path, line)
            self.marks.pop(request.key, None)
            if request.mark != "undone":
                self.marks[request.key] = line

    def disagreements(self) -> bytes | None:
        """Returns, once all is labelled, the items that the verdicts score otherwise; before, it would steer."""
        with self._lock:
            if len(self.marks) < len(self.keys):
                return None
            labels = {key: line.score for key, line in self.marks.items() if isinstance(line.score, float)}
        items = self.run.read(key for key in self.keys if key in labels)
        entries = ({"key": item.key, "label": labels[item.key], "score": self.drawn.score(item)} for item in items)
        return orjson.dumps([one for one in entries if one["label"] != one["score"]])


def _mark(line: LabelLine | None) -> Mapping[str, Any] | None:
    return None if line is None else {"mark": line.mark, "score": None if line.score is UNSET else line.score}


class Handler(LocalHandler):
    """Answers GET, HEAD, and the POST of a label."""

    server_version = "lyncean-label"

    def __init__(self, *args: object, sheet: Sheet) -> None:
        self.sheet = sheet
        super().__init__(*args)  # type: ignore[arg-type]

    def answer(self, path: str) -> None:
        """Serves the page, its data, or an image."""
        head, _, rest = path.lstrip("/").rpartition("/")
        if path == "/":
            page = document("label.html", scripts=_SCRIPTS, connect=True, sheet=self.sheet)
            self.send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", policy(_SCRIPTS, connect=True))
        elif path == "/api/state":
            self.send(HTTPStatus.OK, self.sheet.state(), "application/json")
        elif path == "/api/disagreements":
            self._json(self.sheet.disagreements())
        elif head == "api/items" and rest.isascii() and rest.isdecimal() and len(rest) < 10:
            self._json(self.sheet.item(int(rest)))
        elif head == "images":
            self.image(self.sheet.run, rest)
        else:
            self.missing()

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server looks for
        """Stores a label, if the page that this server made sends it."""
        length = self.headers.get("Content-Length") or ""
        if not (length.isascii() and length.isdecimal() and len(length) < 10 and int(length) <= _LONGEST):
            self.close_connection = True  # the rest is not a request
            self.send(HTTPStatus.BAD_REQUEST, b"a label is a short JSON object\n", "text/plain")
            return
        body = self.rfile.read(int(length))
        origin = self.headers.get("Origin")
        ours = (f"http://{name}:{self.connection.getsockname()[1]}" for name in (HOST, "localhost"))
        token = self.headers.get(TOKEN) or ""
        if not self.is_local():
            return
        if (origin and origin not in ours) or not secrets.compare_digest(token.encode(), self.sheet.token.encode()):
            self.send(HTTPStatus.FORBIDDEN, b"reload the page: it is not this server's\n", "text/plain")
        elif self.path != "/api/label":
            self.missing()
        else:
            self._record(body)

    def _record(self, body: bytes) -> None:
        try:
            self.sheet.record(msgspec.json.decode(body, type=LabelRequest))
        except (msgspec.MsgspecError, ValueError) as error:
            self.send(HTTPStatus.BAD_REQUEST, f"{error}\n".encode(), "text/plain; charset=utf-8")
        except UserError as error:
            self.send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode(), "text/plain; charset=utf-8")
        else:
            self.send(HTTPStatus.OK, b"{}", "application/json")

    def _json(self, body: bytes | None) -> None:
        if body is None:
            self.missing()
        else:
            self.send(HTTPStatus.OK, body, "application/json")


def serve(sheet: Sheet, port: int) -> ThreadingHTTPServer:
    """Returns a server for one person's labels, bound but not serving yet; port 0 picks a free one.

    Raises:
        OSError: The port is taken.
    """
    return listen(partial(Handler, sheet=sheet), port)
