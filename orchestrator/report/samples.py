"""Every sample of a run, packed so that a browser can hold ten thousand of them.

A page gets an index of columns (what the list shows and most filters need) and chunks of whole
items, each gzipped and base64-coded: a chunk is unpacked when one of its items is looked at, or
when text is searched for. Nothing in this form can be mistaken for markup.
"""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from orchestrator.report.diagnostics import Diagnostics
from orchestrator.report.run import OUTCOMES, STEP, Item, Run

CHUNK = 100
"""Items unpacked together: about the time of one frame."""

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
        images: Names of the images shown, with their media types.
        problems: How often each (outcome, reason) other than scored occurs, with one message.
        rules: The rules that read the answers.
        decoding: How it was decoded, as asked for, a few words for each way that occurs.
        diagnostics: What the charts need that no figure has.
        items: How many there are.
    """

    index: str = ""
    chunks: list[str] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    problems: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    decoding: set[str] = field(default_factory=set)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    items: int = 0


class _Column:
    """Values that repeat, stored once."""

    def __init__(self, *known: str) -> None:
        self.names = {name: at for at, name in enumerate(known)}
        self.codes: list[int] = []

    def add(self, value: str | None) -> None:
        self.codes.append(-1 if value is None else self.names.setdefault(value, len(self.names)))

    def packed(self) -> dict[str, Any]:
        return {"names": list(self.names), "codes": self.codes}


def pack(run: Run) -> Packed:
    """Reads a run once and packs it."""
    packed, chunk = Packed(), []
    plain: dict[str, list[Any]] = {name: [] for name in ("key", "score", "extracted", "target", "answer")}
    coded = {"task": _Column(), "outcome": _Column(*_SHOWN), "reason": _Column()}
    labels: dict[str, _Column] = {}
    for item in run:
        outcome = item.outcome or PENDING
        reason = item.verdict.get("reason") or (item.response.get("error") or {}).get("reason")
        plain["key"].append(item.key)
        plain["score"].append(item.score)
        plain["extracted"].append(item.verdict.get("extracted", ""))
        plain["target"].append(" | ".join(item.scoring.get("targets", ()))[:_SNIPPET])
        plain["answer"].append(_snippet(item))
        coded["task"].add(item.task)
        coded["outcome"].add(outcome)
        coded["reason"].add(reason or None)
        for name in item.labels:
            if name not in labels:
                labels[name] = _Column()
                labels[name].codes.extend([-1] * packed.items)
        for name, column in labels.items():
            column.add(item.labels.get(name))
        _learn(packed, item, outcome, str(reason or ""))
        chunk.append({"r": item.response, "v": item.verdict})
        packed.items += 1
        if len(chunk) == CHUNK:
            packed.chunks.append(_squeeze(chunk))
            chunk = []
    if chunk:
        packed.chunks.append(_squeeze(chunk))
    packed.index = _squeeze(
        {
            "size": packed.items, "chunk": CHUNK, **plain,
            **{name: column.packed() for name, column in coded.items()},
            "labels": {name: column.packed() for name, column in sorted(labels.items())},
        }
    )  # fmt: skip
    return packed


def _snippet(item: Item) -> str:
    if item.response.get("error"):
        return str(item.response["error"].get("message", ""))[:_SNIPPET]
    found = item.response.get("response") or {}
    if scores := found.get("scores"):
        return f"{len(scores)} continuations scored"
    words = " ".join(item.text[: 4 * _SNIPPET].split())[:_SNIPPET]
    pictures = sum("image" in part for part in found.get("parts", ()))
    return " ".join(filter(None, (words, "[image]" * pictures)))


def _learn(packed: Packed, item: Item, outcome: str, reason: str) -> None:
    if outcome in OUTCOMES and outcome != "scored":
        message = (item.response.get("error") or {}).get("message") or item.verdict.get("detail") or ""
        packed.problems.setdefault((outcome, reason), [0, message])[0] += 1
    packed.diagnostics.add(item)
    if rule := item.verdict.get("rule") or item.scoring.get("rule"):
        packed.rules.add(str(rule))
    request = item.response.get("request") or {}
    if config := {name: value for name, value in (request.get("config") or {}).items() if name != "seed"}:
        packed.decoding.add(", ".join(f"{name} {value}" for name, value in sorted(config.items())))
    for message in request.get("messages", ()):
        _images(packed, message.get("parts", ()))
    _images(packed, (item.response.get("response") or {}).get("parts", ()))


def _images(packed: Packed, parts: list[Mapping[str, Any]]) -> None:
    for part in parts:
        if image := part.get("image"):
            packed.images[str(image.get("sha256", ""))] = str(image.get("media_type", ""))


def outcomes(run: Run) -> Counter[str]:
    """Counts a run's outcomes from its verdicts alone: what is known while it goes on."""
    return Counter(str(verdict.get("outcome", "")) for verdict in run.verdicts.values())


def _squeeze(value: Any) -> str:
    # mtime 0: the same run makes the same page.
    return base64.b64encode(gzip.compress(orjson.dumps(value), 6, mtime=0)).decode()
