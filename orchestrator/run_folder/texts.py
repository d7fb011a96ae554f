"""Prompts and answers of a log, read only if they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestrator.run_folder.lines import DamagedLine, decode
from orchestrator.run_folder.scanning import damaged

_HEAD = b'{"key":"'


class _Part(Struct):
    text: str = ""


class _Message(Struct):
    role: str = ""
    parts: list[_Part] = []


class _Request(Struct):
    messages: list[_Message] = []


class _Response(Struct):
    parts: list[_Part] = []


class _Scoring(Struct):
    rule: str = ""


class AnswerLine(Struct):
    """Of a line of `responses.jsonl`, the answer."""

    key: str
    scoring: _Scoring | None = None
    response: _Response | None = None


class TextLine(AnswerLine):
    """Of a line of `responses.jsonl`, the prompt and the answer."""

    request: _Request | None = None


def answered(path: Path, wanted: Mapping[str, Any], prompts: Callable[[str], bool]) -> Iterator[tuple[str, AnswerLine]]:
    """Yields the scored answers in a log, each with its task.

    Args:
        path: The log.
        wanted: The tasks; those that are taken out meanwhile are wanted no more.
        prompts: Whether a task's answers are still to come as a TextLine, with their prompts.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for data in file:
            if not wanted:
                return
            task = data[len(_HEAD) : data.find(b"/")].decode(errors="replace") if data.startswith(_HEAD) else ""
            if task in wanted and data.endswith(b"\n"):
                try:
                    line = decode(data, TextLine if prompts(task) else AnswerLine)
                except DamagedLine as error:
                    raise damaged(path, offset, error) from error
                if line.response and line.scoring is not None:
                    yield task, line
            offset += len(data)
