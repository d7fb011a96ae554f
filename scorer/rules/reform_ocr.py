"""reform_ocr: scores exactly as ReForm-Eval's OCROpenEnded (metrics/ocropenended.py there)."""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rule import Rule, scored

_OTHER = re.compile(r"[^a-zA-Z0-9\s]")


def whole_word(sentence: str, word: str) -> bool:
    """Returns true if `sentence` contains `word` between word boundaries; "" is in all that contain a word."""
    return re.search(rf"\b{re.escape(word)}\b", sentence) is not None


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Searches the cleaned answer for the cleaned target, between word boundaries.

    Several targets form one phrase, joined by blanks: list answers of the reference are not alternatives.

    Raises:
        RequestError: The target is missing.
    """
    if not request.targets:
        raise RequestError("needs a target")
    target = _OTHER.sub("", " ".join(request.targets)).lower()
    answer = _OTHER.sub("", request.text).lower()
    return scored(request.text, float(whole_word(answer, target)), scores={"format_hit": 1.0})


RULE = Rule(
    name="reform_ocr",
    description=(
        "ReForm-Eval's OCROpenEnded: everything but ASCII letters, digits and white space is deleted from both sides, "
        "then the target must stand in the answer as a whole word. Several targets are joined to one phrase."
    ),
    read=read,
    parity=True,
)
