"""Samples, packed so that a browser can hold twenty thousand of them.

A page gets an index of columns (what the list shows and most filters need) and chunks of whole
items, each gzipped and base64-coded: a chunk is unpacked when one of its items is looked at, or
when text is searched for. Nothing in this form can be mistaken for markup.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from orchestrator.run_folder.reader import Item

CHUNK = 100
"""Items unpacked together: about the time of one frame."""

SNIPPET = 120
"""Characters of a text that the list shows at most."""


class _Column:
    """Values that repeat, stored once."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = {name: at for at, name in enumerate(names)}
        self.codes: list[int] = []

    def add(self, value: str | None) -> None:
        self.codes.append(-1 if value is None else self.names.setdefault(value, len(self.names)))

    def packed(self) -> dict[str, Any]:
        return {"names": list(self.names), "codes": self.codes}


class Packing:
    """Items on their way into a page.

    Args:
        plain: Columns whose values differ.
        coded: Columns whose values repeat.
        known: Values that a coded column has at the start, in their order.

    Attributes:
        size: How many there are.
        media: Names of the images and clips shown, with their media types.
    """

    def __init__(self, plain: Iterable[str], coded: Iterable[str], **known: Iterable[str]) -> None:
        self.size = 0
        self.media: dict[str, str] = {}
        self._plain: dict[str, list[Any]] = {name: [] for name in plain}
        self._coded = {name: _Column(known.get(name, ())) for name in coded}
        self._labels: dict[str, _Column] = {}
        self._chunks: list[str] = []
        self._chunk: list[Any] = []

    def add(self, item: Any, labels: Mapping[str, str], **values: Any) -> None:
        """Adds an item as the page shows it, with its labels and its value in each column, None for none."""
        for name, plain in self._plain.items():
            plain.append(values[name])
        for name, column in self._coded.items():
            column.add(values[name])
        for name in labels:
            if name not in self._labels:
                self._labels[name] = _Column()
                self._labels[name].codes.extend([-1] * self.size)
        for name, column in self._labels.items():
            column.add(labels.get(name))
        self.size += 1
        self._chunk.append(item)
        if len(self._chunk) == CHUNK:
            self._flush()

    def show(self, item: Item) -> dict[str, Any]:
        """Returns what a page shows of an item, its media noted."""
        for message in (item.response.get("request") or {}).get("messages", ()):
            self._note(message.get("parts", ()))
        self._note((item.response.get("response") or {}).get("parts", ()))
        self._note((item.response.get("tool") or {}).get("content", ()))
        verdict = {name: value for name, value in item.verdict.items() if name != "details"}  # nothing for people
        return {"r": item.response, "v": verdict}

    def index(self, **more: Any) -> str:
        """Returns the packed index."""
        return _squeeze(
            {
                "size": self.size, "chunk": CHUNK, **more, **self._plain,
                **{name: column.packed() for name, column in self._coded.items()},
                "labels": {name: column.packed() for name, column in sorted(self._labels.items())},
            }
        )  # fmt: skip

    def chunks(self) -> list[str]:
        """Returns the packed chunks."""
        if self._chunk:
            self._flush()
        return self._chunks

    def _flush(self) -> None:
        self._chunks.append(_squeeze(self._chunk))
        self._chunk = []

    def _note(self, parts: Iterable[Mapping[str, Any]]) -> None:
        for part in parts:
            for kind in ("image", "audio", "video"):
                if medium := part.get(kind):
                    self.media[str(medium.get("sha256", ""))] = str(medium.get("media_type", ""))


def question(item: Item) -> tuple[str | None, str | None]:
    """Returns the beginning of the last question's text and the first of its images, which the list shows."""
    messages = (item.response.get("request") or {}).get("messages") or [{}]
    questions = [message for message in messages if message.get("role") == "ROLE_USER"] or messages
    parts = questions[-1].get("parts", ())
    text = " ".join(part["text"] for part in parts if part.get("text"))
    image = next((str(part["image"].get("sha256", "")) for part in parts if part.get("image")), "")
    return snippet(text) or None, image or None


def snippet(text: str) -> str:
    """Returns the beginning of a text on one line."""
    return " ".join(text[: 4 * SNIPPET].split())[:SNIPPET]


def _squeeze(value: Any) -> str:
    # mtime 0: the same run makes the same page.
    return base64.b64encode(gzip.compress(orjson.dumps(value), 6, mtime=0)).decode()
