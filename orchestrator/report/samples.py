"""The samples of a run, packed so that a browser can hold twenty thousand of them.

A page gets an index of columns (what the list shows and most filters need) and chunks of whole
items, each gzipped and base64-coded: a chunk is unpacked when one of its items is looked at, or
when text is searched for. Nothing in this form can be mistaken for markup.
"""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from orchestrator.report.diagnostics import Diagnostics
from orchestrator.report.selection import Selection
from orchestrator.run_folder.metrics import OUTCOMES
from orchestrator.run_folder.reader import STEP, Item, Run

CHUNK = 100
"""Items unpacked together: about the time of one frame."""

MOST = 20_000
"""Items that a page holds at most, or about: more is slow to open, and nobody pages through them."""

PENDING = "pending"
"""In place of an outcome where an answer is not scored yet."""

_SHOWN = (*OUTCOMES, STEP, PENDING)
_SNIPPET = 120


@dataclass(slots=True)
class Packed:
    """A run's items as a page holds them, and what was learnt on the way.

    Attributes:
        index: The packed index.
        chunks: The packed chunks.
        images: Names of the images and clips shown, with their media types.
        problems: How often each (outcome, reason) other than scored occurs, with one message.
        rules: The rules that read the answers.
        decoding: How it was decoded, as asked for, a few words for each way that occurs.
        diagnostics: What the charts need that no metric has.
        outcomes: How many verdicts there are by outcome.
        wrong: For each task that is asked about, how many of the items with the labels asked for are wrong, and how
            many there are.
        items: How many items the run has.
        shown: How many of them are packed.
    """

    index: str = ""
    chunks: list[str] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    problems: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    decoding: set[str] = field(default_factory=set)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, tuple[int, int]] = field(default_factory=dict)
    items: int = 0
    shown: int = 0


class _Column:
    """Values that repeat, stored once."""

    def __init__(self, *known: str) -> None:
        self.names = {name: at for at, name in enumerate(known)}
        self.codes: list[int] = []

    def add(self, value: str | None) -> None:
        self.codes.append(-1 if value is None else self.names.setdefault(value, len(self.names)))

    def packed(self) -> dict[str, Any]:
        return {"names": list(self.names), "codes": self.codes}


class _Columns:
    """What the list shows, and what it is filtered by."""

    def __init__(self) -> None:
        self.items = 0
        plain = ("key", "score", "extracted", "target", "answer", "length", "seconds")
        self._plain: dict[str, list[Any]] = {name: [] for name in plain}
        coded = ("task", "reason", "turn", "question", "image")
        self._coded = {"outcome": _Column(*_SHOWN), **{name: _Column() for name in coded}}
        self._labels: dict[str, _Column] = {}

    def add(self, item: Item) -> None:
        self._plain["key"].append(item.key)
        self._plain["score"].append(item.score)
        self._plain["extracted"].append(item.verdict.get("extracted", ""))
        self._plain["target"].append(" | ".join(item.scoring.get("targets", ()))[:_SNIPPET])
        self._plain["answer"].append(_snippet(item))
        self._plain["length"].append(len(item.text))
        self._plain["seconds"].append(item.response.get("seconds"))
        question, image = _question(item)
        self._coded["question"].add(question or None)
        self._coded["image"].add(image or None)
        self._coded["task"].add(item.task)
        self._coded["outcome"].add(item.outcome or PENDING)
        self._coded["reason"].add(_reason(item) or None)
        self._coded["turn"].add(_turn(item))
        for name in item.labels:
            if name not in self._labels:
                self._labels[name] = _Column()
                self._labels[name].codes.extend([-1] * self.items)
        for name, column in self._labels.items():
            column.add(item.labels.get(name))
        self.items += 1

    def packed(self) -> str:
        return _squeeze(
            {
                "size": self.items, "chunk": CHUNK, **self._plain,
                **{name: column.packed() for name, column in self._coded.items()},
                "labels": {name: column.packed() for name, column in sorted(self._labels.items())},
            }
        )  # fmt: skip


def pack(run: Run, labels: Mapping[str, Mapping[str, str]] | None = None) -> Packed:
    """Reads a run and packs it: all of it up to `MOST` items, of a larger one a selection.

    Args:
        run: The run.
        labels: For each task the labels that its items must have to be counted in `Packed.wrong`.
    """
    packed, labels = Packed(items=len(run)), labels or {}
    if packed.items <= MOST:
        _show(packed, (_learnt(packed, item, labels) for item in run))
        return packed
    selection = Selection()
    for item in run:
        selection.add(_learnt(packed, item, labels), _reason(item))
    _show(packed, run.at(selection.places(MOST)))
    return packed


def _show(packed: Packed, items: Iterable[Item]) -> None:
    columns, chunk = _Columns(), []
    for item in items:
        columns.add(item)
        for message in (item.response.get("request") or {}).get("messages", ()):
            _images(packed, message.get("parts", ()))
        _images(packed, (item.response.get("response") or {}).get("parts", ()))
        verdict = {name: value for name, value in item.verdict.items() if name != "details"}  # nothing for people
        chunk.append({"r": item.response, "v": verdict})
        if len(chunk) == CHUNK:
            packed.chunks.append(_squeeze(chunk))
            chunk = []
    if chunk:
        packed.chunks.append(_squeeze(chunk))
    packed.index, packed.shown = columns.packed(), columns.items


def _reason(item: Item) -> str:
    return str(item.verdict.get("reason") or (item.response.get("error") or {}).get("reason") or "")


def _is_wrong(item: Item) -> bool:
    """Returns what the page's filter "wrong" shows."""
    return item.outcome in ("unparsed", "refused") or (
        item.outcome == "scored" and item.score is not None and item.score <= 0
    )


def _turn(item: Item) -> str | None:
    """Returns what the key says after the sample's own, which may hold colons too; None where that is all it says."""
    key, own = item.key, f"{item.sample}:"
    return key.removeprefix(own) if key.startswith(own) else None


def _snippet(item: Item) -> str:
    if item.response.get("error"):
        return str(item.response["error"].get("message", ""))[:_SNIPPET]
    found = item.response.get("response") or {}
    if scores := found.get("scores"):
        return f"{len(scores)} continuations scored"
    words = " ".join(item.text[: 4 * _SNIPPET].split())[:_SNIPPET]
    pictures = sum("image" in part for part in found.get("parts", ()))
    return " ".join(filter(None, (words, "[image]" * pictures)))


def _question(item: Item) -> tuple[str, str]:
    """Returns the beginning of the last question's text and the first of its images, which the list shows."""
    messages = (item.response.get("request") or {}).get("messages") or [{}]
    asked = [message for message in messages if message.get("role") == "ROLE_USER"] or messages
    parts = asked[-1].get("parts", ())
    text = " ".join(part["text"] for part in parts if part.get("text"))
    image = next((str(part["image"].get("sha256", "")) for part in parts if part.get("image")), "")
    return " ".join(text[: 4 * _SNIPPET].split())[:_SNIPPET], image


def _learnt(packed: Packed, item: Item, labels: Mapping[str, Mapping[str, str]]) -> Item:
    """Returns the item, what it adds to the run as a whole taken down."""
    wanted = labels.get(item.task)
    if wanted is not None and item.outcome != STEP and all(item.labels.get(k) == v for k, v in wanted.items()):
        wrong, items = packed.wrong.get(item.task, (0, 0))
        packed.wrong[item.task] = (wrong + _is_wrong(item), items + 1)
    if item.outcome in OUTCOMES and item.outcome != "scored":
        message = (item.response.get("error") or {}).get("message") or item.verdict.get("detail") or ""
        packed.problems.setdefault((item.outcome, _reason(item)), [0, message])[0] += 1
    packed.outcomes[str(item.verdict.get("outcome", ""))] += 1
    packed.diagnostics.add(item)
    if rule := item.verdict.get("rule") or item.scoring.get("rule"):
        packed.rules.add(str(rule))
    request = item.response.get("request") or {}
    if config := {name: value for name, value in (request.get("config") or {}).items() if name != "seed"}:
        packed.decoding.add(", ".join(f"{name} {value}" for name, value in sorted(config.items())))
    return item


def _images(packed: Packed, parts: list[Mapping[str, Any]]) -> None:
    for part in parts:
        for kind in ("image", "audio", "video"):
            if medium := part.get(kind):
                packed.images[str(medium.get("sha256", ""))] = str(medium.get("media_type", ""))


def _squeeze(value: Any) -> str:
    # mtime 0: the same run makes the same page.
    return base64.b64encode(gzip.compress(orjson.dumps(value), 6, mtime=0)).decode()
