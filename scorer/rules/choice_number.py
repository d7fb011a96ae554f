"""choice_number: the numbered choice that an answer states."""

from __future__ import annotations

from functools import lru_cache

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.answer import read_choice
from scorer.reading.label_forms import LEXICON, Forms, ordinals
from scorer.reading.numbers import HAN_DIGITS, WORDS
from scorer.rule import Rule
from scorer.rules.params import flag, integer
from scorer.rules.request import label_targets, verdict

LIMIT = 9
_NOUNS, _LAST_NOUNS, _CLASSIFIERS = (
    ("", *LEXICON.entries("NUMBERED_NOUN")),
    LEXICON.entries("LAST_NOUN"),
    ("", *LEXICON.entries("CLASSIFIER")),
)


@lru_cache(maxsize=32)
def _forms(count: int, letters: bool) -> Forms:
    """Returns all ways to write the numbers up to `count`: digits, words, ordinals, and letters if `letters`."""
    forms: dict[str, str] = {}
    cardinals = {value: word for word, value in WORDS.items()}
    for number in range(1, count + 1):
        value = str(number)
        names = [value, cardinals[number]]
        names += [
            f"{article}{ordinal} {noun}".rstrip()
            for article in ("", "the ")
            for ordinal in ordinals(number)
            for noun in _NOUNS
        ]
        names += [f"第{digit}{noun}" for digit in (HAN_DIGITS[number], value) for noun in _CLASSIFIERS]
        if number == count:
            names += [f"{article}last {noun}" for article in ("", "the ") for noun in _LAST_NOUNS]
        if letters:
            names += [chr(ord("A") + number - 1), chr(ord("a") + number - 1)]
        for name in names:
            forms |= {name: value, name.capitalize(): value, name.upper(): value, name.title(): value}
    return Forms(forms)


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    options = tuple(request.options)
    count = integer(request, "count", len(options) or 4)
    if not 1 < count <= LIMIT or (options and len(options) != count):
        raise RequestError(
            f"choice_number: {count} choices and {len(options)} options: give 2 to {LIMIT}, or none and params.count"
        )
    labels = tuple(str(number) for number in range(1, count + 1))
    targets = label_targets(request, labels, options)
    answer = read_choice(request.text, labels, options, forms=_forms(count, flag(request, "letters")), cut=request.cut)
    return verdict(request, answer, targets)


RULE = Rule(
    name="choice_number",
    description=(
        "Reads which of the choices numbered from 1 an answer states: as a digit, a word or an ordinal. Target: the"
        " right digit. Options: the choices as the model saw them, if they are words; none where they are drawn."
    ),
    read=_read,
    version=6,
    params={
        "count": "How many choices there are, where `options` is empty; default 4.",
        "letters": "Whether A, B, C... stand for 1, 2, 3...; default false.",
    },
)
