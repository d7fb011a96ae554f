"""lmms_visualpuzzles: reads a VisualPuzzles answer as lmms-eval does, bugs included."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.rule import Rule, scored, unparsed
from scorer.rules.params import choice
from scorer.rules.parity import STRIP_REASONING, response_of

LABELS = "ABCD"

# The first pattern with a hit wins, and of its non-overlapping hits the last whose upper case is a
# label. "Answer:" is case-sensitive throughout. Leading blanks, which the reference allows, change
# no hit and are left out, so that the patterns stay linear.
_ON_RESPONSE = (
    # 1: a bracketed letter beats any later "Answer:" without brackets.
    re.compile(r"Answer:\s*\(([A-Za-z])\)"),
    # 2: skips "Final Answer:" if there is any other "Answer:"; no boundary after the letter, so
    # "Answer: Because" is B.
    re.compile(r"(?<!Final )Answer:\s*([A-Za-z])"),
    # 3: now with "Final ".
    re.compile(r"Answer:\s*([A-Za-z])"),
    # 4
    re.compile(r"\(([A-Za-z])\)"),
)
# From the fifth pattern on, the reference puts a blank in front of the response.
_ON_PADDED = (
    # 5: no boundary before the letter: "(abridged)" is d.
    re.compile(r"([A-Za-z])\)"),
    # 6
    re.compile(r"\{([A-Za-z])\}"),
    # 7
    re.compile(r"\$([A-Za-z])\$"),
    # 8
    re.compile(r" ([A-Da-d])\."),
)
# 9: anything may follow the letter, so "Blue" is B; tried on responses of at most four characters.
_SHORT = re.compile(r" ([A-Da-d])")
_SHORT_LIMIT = 5


def extract(response: str, options: Sequence[str]) -> tuple[str, str] | None:
    """Returns the letter, in its original case, and the reference's rule that extracted it."""
    response = response.strip()
    padded = " " + response
    tries = [(pattern, response) for pattern in _ON_RESPONSE] + [(pattern, padded) for pattern in _ON_PADDED]
    if len(padded) <= _SHORT_LIMIT:
        tries.append((_SHORT, padded))
    for number, (pattern, text) in enumerate(tries, start=1):
        hits = [letter for letter in pattern.findall(text) if letter.upper() in LABELS]
        if hits:
            return hits[-1], f"rule_{number}"
    return _by_option(padded, options)


def _by_option(padded: str, options: Sequence[str]) -> tuple[str, str] | None:
    # 10: the response is lower-cased and the option is not, so "answer: bob" misses "Bob" and
    # "Answer: Bob" does, too.
    lowered = padded.lower()
    for label, option in zip(LABELS, options, strict=False):
        if f"answer: {option}" in lowered or f"answer:{option}" in lowered:
            return label, "rule_10"
    # 11: the option that occurs last, as a substring of any word; on a tie the earlier label. An
    # empty option occurs at the very end.
    positions = [padded.rfind(option) for option in options[: len(LABELS)]]
    latest = max(positions, default=-1)
    return (LABELS[positions.index(latest)], "rule_11") if latest >= 0 else None


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if not request.targets:
        raise RequestError("lmms_visualpuzzles needs a target: the right letter")
    variant = choice(request, "variant", ("main", "unig2u"))
    extracted = extract(response_of(request), list(request.options))
    if extracted is None:
        if variant == "unig2u":
            return unparsed(Reason.NO_CHOICE)
        # 12: the reference draws from a global generator; here the key seeds the draw, so that it is reproducible.
        seed = hashlib.sha256(request.key.encode()).digest()
        extracted = random.Random(seed).choice(LABELS), Reason.RANDOM_DRAW
    letter, reason = extracted
    right = any(letter.lower() == target.lower() for target in request.targets)
    return scored(letter, float(right), reason=reason)


RULE = Rule(
    name="lmms_visualpuzzles",
    description=(
        "Reads a letter A to D exactly as lmms-eval's VisualPuzzles does. Where the reference draws a letter at"
        " random, the draw is seeded by the sample's key and the reason is random_draw. For comparing with published"
        " results only; target: a letter; options: their texts, none where they are drawn in the image."
    ),
    read=_read,
    parity=True,
    params={
        "variant": "main (default) draws at random where nothing is found, unig2u leaves it unparsed.",
        "strip_reasoning": STRIP_REASONING,
    },
)
