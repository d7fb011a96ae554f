"""Tags around an answer in a prompt that the answer cannot forge, against injected instructions."""

from __future__ import annotations

import hashlib
import re

_TAG = re.compile(r"<\s*/?\s*answer", re.IGNORECASE)


def fenced(answer: str) -> str:
    """Returns an answer, unedited, between tags: `<answer>`, or, if it holds such a tag, a tag made of its hash.

    Equal answers have equal tags, so that the cache finds their replies; and no answer can
    contain its own hash.
    """
    tag = "answer"
    if _TAG.search(answer):
        tag += "-" + hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"<{tag}>\n{answer}\n</{tag}>"
