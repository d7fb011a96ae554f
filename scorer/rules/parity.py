"""The processing that lmms-eval applies to a response before its tasks score it."""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.rules.params import flag

STRIP_REASONING = "Whether <think> and <analysis> are removed first, as its command line does; default true."

_PAIRS = tuple(
    (f"<{name}>", f"</{name}>", re.compile(rf"<{name}>.*?</{name}>", re.DOTALL)) for name in ("think", "analysis")
)


def strip_reasoning(text: str) -> str:
    """Removes reasoning tags as the reference does.

    Case matters; an opening tag without its end stays; if there are only closing tags, the text
    up to the last of them goes.
    """
    for opening, closing, pair in _PAIRS:
        if closing not in text:
            continue
        if opening in text:
            # Without an end the lazy pattern scans all of the text from every opening tag, so it stops at the last end.
            last = text.rindex(closing) + len(closing)
            text = pair.sub("", text[:last]) + text[last:]
        if closing in text and opening not in text:
            text = text[text.rindex(closing) + len(closing) :]
    return text.strip()


def response_of(request: pb.ScoreRequest) -> str:
    """Returns the response in the form that the reference's scorer gets."""
    strip = flag(request, "strip_reasoning", default=True)
    return strip_reasoning(request.text) if strip else request.text.strip()
