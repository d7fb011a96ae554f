"""Prompt templates: text with `{column}` in it, and nothing that could be run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text as it stands, a column's value, the list of options, or the next image or clip."""

    text: str = ""
    column: str = ""


def parse(template: str) -> list[Piece]:
    """Returns the pieces of a template; `{{` and `}}` stand for braces.

    Raises:
        ValueError: A brace has no partner, or a place no name.
    """
    pieces: list[Piece] = []
    last = 0
    text = ""
    for match in _PLACE.finditer(template):
        text += template[last : match.start()]
        last = match.end()
        if match[0] in ("{{", "}}"):
            text += match[0][0]
        elif match[1] is None:
            raise ValueError(f"a lone {match[0]!r}; write {match[0] * 2!r} for the sign itself")
        elif not match[1].strip():
            raise ValueError("{} has no name in it; write {question}, {options} or {column}")
        else:
            if text:
                pieces.append(Piece(text=text))
            pieces.append(Piece(column=match[1].strip()))
            text = ""
    text += template[last:]
    return [*pieces, Piece(text=text)] if text else pieces


def fill(pieces: Sequence[Piece], values: Mapping[str, Any], images: Sequence[str]) -> list[str | int]:
    """Returns texts, and for each image its number, in the order in which they are to be sent.

    Images that the template does not place stand in front.
    """
    placed = {piece.column for piece in pieces} & set(images)
    out: list[str | int] = [number for number, name in enumerate(images) if name not in placed]
    for piece in pieces:
        if piece.column in placed:
            out.append(images.index(piece.column))
            continue
        text = str(values[piece.column]) if piece.column else piece.text
        last = out[-1] if out else None
        if isinstance(last, str):
            out[-1] = last + text
        else:
            out.append(text)
    return [part for part in out if part != ""]
