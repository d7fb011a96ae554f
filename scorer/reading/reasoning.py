"""Removes a model's reasoning from its answer, once, before any rule reads it."""

from __future__ import annotations

from typing import NamedTuple

from scorer.reading.lexicon import Lexicon

LEXICON = Lexicon("typography")


_PRINTED = "assistantfinal"
"""Channel markup that a server printed as text."""


class Reasoned(NamedTuple):
    """An answer without the reasoning before it.

    Attributes:
        answer: The answer; "" if all of the text is reasoning.
        offset: Code points cut from the front: `answer` is `text[offset:offset + len(answer)]`.
        removed: Whether text was cut.
    """

    answer: str
    offset: int
    removed: bool


def split(text: str) -> Reasoned:
    """Returns the part of a text that is the answer.

    The answer is the last non-blank stretch outside all reasoning: one contiguous piece, so that
    spans map back by adding `offset`. Tags match in any case, with or without their opening half
    (chat templates put that in the prompt), and may nest. All text after an opening tag that is
    never closed is reasoning.
    """
    if not any(sign in text for sign in ("<", "[", "◁", _PRINTED)):
        return Reasoned(text, 0, False)
    pieces: list[tuple[int, int]] = []
    start, depth = 0, 0
    for match in LEXICON.REASONING_TAG.finditer(text):
        if match["close"] or match["square"] or match["shut"]:
            if depth == 0:
                pieces.clear()
            depth = max(depth - 1, 0)
            start = match.end()
        else:
            if depth == 0:
                pieces.append((start, match.start()))
            depth += 1
    if depth == 0:
        pieces.append((start, len(text)))
    filled = [piece for piece in pieces if text[slice(*piece)].strip()]
    start, end = _channel(text, *(filled or pieces or [(len(text), len(text))])[-1])
    return Reasoned(text[start:end], start, (start, end) != (0, len(text)))


def _channel(text: str, start: int, end: int) -> tuple[int, int]:
    channels = list(LEXICON.CHANNEL.finditer(text, start, end))
    if not channels:
        return start, end
    last = channels[-1]
    if (last[1] or last[2]).lower() not in ("final", "answer", "response"):
        return end, end
    stop = LEXICON.CHANNEL_END.search(text, max(last.end(), end - 200), end)
    return last.end(), stop.start() if stop else end
