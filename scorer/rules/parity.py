"""What lmms-eval does to a response before its tasks score it."""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.rules.params import flag

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
        if opening in text:
            # A search for a pair costs the rest of the text when no end follows, so stop at the last end.
            last = text.rindex(closing) + len(closing)
            text = pair.sub("", text[:last]) + text[last:]
        if closing in text and opening not in text:
            text = text[text.rindex(closing) + len(closing) :]
    return text.strip()


def response_of(request: pb.ScoreRequest) -> str:
    """Returns the response as the reference's scorer gets it."""
    strip = flag(request, "strip_reasoning", default=True)
    return strip_reasoning(request.text) if strip else request.text.strip()
