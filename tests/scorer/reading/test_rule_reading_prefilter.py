"""Prefilters and quick searches find exactly the matches of their patterns."""

from __future__ import annotations

import json
import re

import pytest
from helpers.corpus import CORPUS
from hypothesis import given, settings, strategies as st

from scorer.reading import counting, refusals
from scorer.reading.label_forms import forms_of
from scorer.reading.lexicon import AFTER, ASIDES, BEFORE, DOCUMENT
from scorer.reading.normalize import Folded
from scorer.reading.prefilter import Prefilter, loosened
from scorer.rules.choice_number import _forms

TEXTS = sorted(
    {
        Folded(json.loads(line)["text"]).text
        for path in CORPUS.glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    }
)
MARKS = ("lead", "tail", "text", "number", "behind")
SEARCHED = {
    f"{name}.{pattern.pattern[:20]}": pattern
    for name, lexicon in (
        *(("before", BEFORE), ("after", AFTER), ("asides", ASIDES), ("document", DOCUMENT)),
        ("counting", counting.LEXICON),
    )
    for mark in MARKS
    for pattern in lexicon.marked(mark)
} | {"refusals": refusals.LEXICON.DECLINES}
FREQUENT = (BEFORE.ANSWER, BEFORE.NOT, BEFORE.HYPOTHETICAL, DOCUMENT.ABSTAIN, refusals.LEXICON.DECLINES)
MATCHED = {name: pattern for name, pattern in SEARCHED.items() if pattern in AFTER.marked("tail")}
VOCABULARY = (
    *(
        "option",
        "the",
        "choice",
        "A",
        "b",
        "(",
        ")",
        "C.",
        "[",
        "#",
        "\n",
        "number",
        "as",
        "one",
        "3",
        "first",
        "third",
    ),
    *("with", "'", "-", "the second option", "D", "a cat", "d", "answer:", "is", "choice#2", "optionB", ".", ",", "/"),
)


@pytest.mark.parametrize("name", sorted(SEARCHED))
def test_a_prefilter_lets_everything_through_that_its_pattern_finds(name: str) -> None:
    pattern = SEARCHED[name]
    prefilter = Prefilter(lambda: [pattern])
    matches = 0
    for text in TEXTS:
        match = pattern.search(text)
        if match:
            matches += 1
            assert prefilter(text).search(pattern).span() == match.span(), text
            # Also in a piece that begins at a word, with the hits of all of the text.
            assert prefilter(text).piece(text[match.start() :]).may(pattern)
    if pattern in FREQUENT:
        assert matches > 20


@pytest.mark.parametrize("name", sorted(MATCHED))
def test_an_anchored_prefilter_lets_everything_through_that_its_pattern_matches(name: str) -> None:
    pattern = MATCHED[name]
    prefilter = Prefilter(lambda: [pattern], anchored=True)
    for text in TEXTS:
        for start in range(0, min(len(text), 200), 3):
            tail = text[start:]
            assert not pattern.match(tail) or prefilter(tail).match(pattern), tail


def test_what_is_loosened() -> None:
    assert loosened(re.compile(r"(?<=a(b)[)])x{2,5}(?!\w)y{0,9}?[$^]$")) == r"x+y*?[$^]\n?\z"


@pytest.mark.parametrize("forms", [forms_of(tuple("ABCD")), forms_of(("I", "II", "1.", "x-y")), _forms(4, True)])
def test_forms_are_found_as_their_pattern_finds_them(forms: object) -> None:
    for text in TEXTS:
        assert [match.span() for match in forms.find(text)] == [match.span() for match in forms.pattern.finditer(text)]


@given(st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join))
@settings(max_examples=300)
def test_forms_are_found_in_any_text(text: str) -> None:
    for forms in (forms_of(tuple("ABCD")), _forms(4, False)):
        assert [match.span() for match in forms.find(text)] == [match.span() for match in forms.pattern.finditer(text)]
