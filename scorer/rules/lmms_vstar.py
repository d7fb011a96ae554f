"""lmms_vstar: reads a V*-Bench answer as lmms-eval does, bugs included."""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.rule import Rule, scored, unparsed
from scorer.rules.parity import STRIP_REASONING, response_of

# The response is stripped and upper-cased first, and the leftmost hit of a pattern counts. The
# reference compiles them case-insensitively, which after upper-casing matters only to the dotted
# capital I of the second.
_RULES = (
    # 1: no boundary after the letter: "Answer: D" is A, "Cannot tell" is C.
    re.compile(r"^([A-D])"),
    # 2: no boundary around the noun, or after the letter: "the answer is black" is B.
    re.compile(r"(?:ANSWER|CHOICE|OPTION)(?:\s+IS)?[\s:]+([A-D])", re.IGNORECASE),
    # 3: no blanks inside the brackets.
    re.compile(r"\(([A-D])\)"),
    # 4: no boundary before the letter: "the colour is red." is D.
    re.compile(r"([A-D])\s*[.)\]]"),
    # 5: the English article counts: "this is a cat" is A.
    re.compile(r"(?:^|\s)([A-D])(?:\s|$)"),
)
_LETTER = re.compile(r"[A-D]")


def extract(response: str) -> tuple[str, str] | None:
    """Returns the letter and the number of the reference's rule that extracted it."""
    response = response.strip().upper()
    for number, pattern in enumerate(_RULES, start=1):
        match = pattern.search(response)
        if match:
            return match[1], f"rule_{number}"
    # 6: exactly one of the four letters in all of the response, words included.
    letters = _LETTER.findall(response)
    return (letters[0], "rule_6") if len(letters) == 1 else None


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if not request.targets:
        raise RequestError("lmms_vstar needs a target: the right letter")
    extracted = extract(response_of(request))
    if extracted is None:
        return unparsed(Reason.NO_CHOICE)
    letter, reason = extracted
    right = any(letter == target.strip().upper() for target in request.targets)
    return scored(letter, float(right), reason=reason)


RULE = Rule(
    name="lmms_vstar",
    description=(
        "Reads a letter A to D exactly as lmms-eval's vstar_bench does, which takes the first letter of"
        ' "Answer: D" or "Based on" for the choice. For comparing with published results only; target: a letter.'
    ),
    read=_read,
    parity=True,
    params={"strip_reasoning": STRIP_REASONING},
)
