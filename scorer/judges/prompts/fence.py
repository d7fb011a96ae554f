"""Where an answer begins and ends in a prompt, so that no answer can say that it has ended."""

from __future__ import annotations

import hashlib
import re

_TAG = re.compile(r"<\s*/?\s*answer", re.IGNORECASE)


def fenced(answer: str) -> str:
    """Returns an answer, unedited, between tags: `<answer>`, or, where it holds such a tag, one drawn from its hash.

    The same answer has the same tag, so that its reply is found in the cache; and no answer can
    hold its own hash.
    """
    tag = "answer"
    if _TAG.search(answer):
        tag += "-" + hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"<{tag}>\n{answer}\n</{tag}>"
