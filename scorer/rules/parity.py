"""What lmms-eval does to a response before its tasks score it."""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb

STRIP_REASONING = "Whether <think> and <analysis> are removed first, as its command line does; default true."

_PAIRS = tuple(
    (f"<{name}>", f"</{name}>", re.compile(rf"<{name}>.*?</{name}>", re.DOTALL)) for name in ("think", "analysis")
)


def strip_reasoning(text: str) -> str:
    """Returns the text without reasoning tags, as the reference takes them off.

    Case matters; an opening tag without its end is left as it is; of a closing tag without
    an opening only what follows the last one is kept.
    """
    for opening, closing, pair in _PAIRS:
        if closing not in text:
            continue
        text = _without_pairs(text, opening, closing, pair)
        if closing in text and opening not in text:
            text = text[text.rindex(closing) + len(closing) :]
    return text.strip()


def _without_pairs(text: str, opening: str, closing: str, pair: re.Pattern[str]) -> str:
    # A search for a pair costs the rest of the text when no end follows, so stop at the last end.
    last = text.rindex(closing) + len(closing)
    return pair.sub("", text[:last]) + text[last:] if opening in text else text


def response_of(request: pb.ScoreRequest) -> str:
    """Returns the response as the reference's scorer gets it."""
    params = request.params.fields
    strip = params["strip_reasoning"].bool_value if "strip_reasoning" in params else True
    return strip_reasoning(request.text) if strip else request.text.strip()
