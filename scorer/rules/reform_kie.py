"""reform_kie: scores exactly as ReForm-Eval's KIEOpenEnded (metrics/ocropenended.py there).

The normalisation is that of the VQA challenge (https://visualqa.org/evaluation.html) with the deviations of its
public evaluation code, all of which change results and are kept.
"""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rule import Rule, scored
from scorer.rules.reform_ocr import whole_word

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_DIGIT_COMMA_DIGIT = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
# The reference passes re.UNICODE, which is 32, where the number of replacements belongs.
_FULL_STOPS_DELETED = 32
_NUMBERS = {"none": "0"} | {
    word: str(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_ARTICLES = frozenset(("a", "an", "the"))

# Contractions are misspelt by a lack of apostrophes, so that the table follows from the full forms.
_ONE_APOSTROPHE = """
    ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd how'll how's isn't
    it'd it'll ma'am mightn't might've mustn't must've needn't not've o'clock oughtn't shan't should've shouldn't
    somebody'll somebody's someone'd someone'll someone's something'd something'll that's there'd there're there's
    they'd they'll they're they've 'twas wasn't we've weren't what'll what're what's what've when's where'd where's
    where've who'd who'll who's who've why'll why're why's won't would've wouldn't y'all you'd you'll you're you've
"""
_TWO_APOSTROPHES = """
    couldn't've hadn't've he'd've it'd've mightn't've she'd've shouldn't've somebody'd've someone'd've something'd've
    there'd've they'd've we'd've who'd've wouldn't've you'd've
"""


def _without(word: str, index: int) -> str:
    """Returns the word without its `index`-th apostrophe, from 0."""
    pieces = word.split("'")
    return "'".join([*pieces[:index], pieces[index] + pieces[index + 1], *pieces[index + 2 :]])


_CONTRACTIONS = (
    {word.replace("'", ""): word for word in _ONE_APOSTROPHE.split()}
    | {_without(word, index): word for word in _TWO_APOSTROPHES.split() for index in (0, 1)}
    # Irregular entries; the reference's "I'd've", "I'm" and "I've" are upper-case and never match.
    | {
        "somebody'd": "somebodyd",
        "ow's'at": "'ow's'at",
        "'ows'at": "'ow's'at",
        "'ow'sat": "'ow's'at",
        "yall'll": "y'all'll",
        "y'allll": "y'all'll",
        "yall'd've": "y'all'd've",
        "y'alld've": "y'all'd've",
        "y'all'dve": "y'all'd've",
    }
)


def normalise(text: str) -> str:
    """Returns the text in the form that the reference compares."""
    text = text.replace("\n", " ").replace("\t", " ").strip()
    joined = text
    digits = _DIGIT_COMMA_DIGIT.search(text) is not None
    for mark in _PUNCTUATION:
        delete = digits or f"{mark} " in text or f" {mark}" in text
        joined = joined.replace(mark, "" if delete else " ")
    joined = _FULL_STOP.sub("", joined, count=_FULL_STOPS_DELETED)
    tokens = (_NUMBERS.get(token, token) for token in joined.lower().split())
    return " ".join(_CONTRACTIONS.get(token, token) for token in tokens if token not in _ARTICLES)


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Searches the normalised answer for any normalised target, between word boundaries.

    Raises:
        RequestError: The target is missing.
    """
    if not request.targets:
        raise RequestError("needs a target")
    answer = normalise(request.text)
    hit = any(whole_word(answer, normalise(target)) for target in request.targets)
    return scored(answer, float(hit), scores={"format_hit": 1.0})


RULE = Rule(
    name="reform_kie",
    description=(
        "ReForm-Eval's KIEOpenEnded: both sides are normalised as in the VQA challenge, then any target must stand in "
        "the answer as a whole word. A target that begins or ends with a sign such as $ or % fails against itself."
    ),
    read=read,
    parity=True,
)
