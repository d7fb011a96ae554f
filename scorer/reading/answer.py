"""Reads a whole answer: which of some labelled options it states."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scorer import refusals
from scorer.reading import mentions
from scorer.reading.counting import read_count
from scorer.reading.fold import Folded
from scorer.reading.forms import Forms, forms_of
from scorer.reading.groups import Group
from scorer.reading.lone import agreed, eliminated, lone_label, lone_text
from scorer.reading.mentions import option_text
from scorer.reading.numbers import WORDS
from scorer.reading.statements import Reading, read

HEAD, TAIL = 4096, 16384
"""Code points read of the beginning and the end of a text that is longer than both."""

_OVERRULED = ("elimination", "lone_label", "option_text", "likely", "agreed", "only_number", "negation")
# What a model that declines names in passing is no answer.
_TAG = re.compile(r"<(answer|final_answer|ans|conclusion|choice|option|output)>", re.IGNORECASE)


_NUMBERS = {str(value): word for word, value in WORDS.items() if value != 1}

_NEXT = re.compile(r"\n(?:the )?(?:next )?(?:question|q|human|user|instruction)\s?\d{0,3}\s?:", re.IGNORECASE)
# A base model does not stop at its answer.

# The commonest answers, read without further ado.
_BARE = re.compile(r"\s{0,9}[(\[\"*]{0,3}([A-Za-z0-9])[)\]\".*]{0,3}\s{0,9}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What was read of an answer.

    Attributes:
        value: The value; "" if none.
        reason: How it was read, or why nothing was: "no_choice", "conflict", "abstained",
            "retracted", "empty", "declined".
        span: Code points of the answer's text.
    """

    value: str
    reason: str
    span: tuple[int, int] | None = None


def inner(text: str) -> tuple[int, int] | None:
    """Returns the range of what stands in the last answer tag, if anything does."""
    tags = list(_TAG.finditer(text))
    if not tags:
        return None
    last = tags[-1]
    end = text.lower().find(f"</{last[1].lower()}>", last.end())
    end = len(text) if end < 0 else end
    return (last.end(), end) if text[last.end() : end].strip() else None


def read_answer(text: str, reader: Callable[[str], Reading]) -> Answer:
    """Returns what a reader of folded text reads of an answer, answer tags and refusals minded.

    Of a text longer than HEAD + TAIL code points, beyond any answer a benchmark asks for, only
    that much of its beginning and its end is read.
    """
    cut = len(text) - HEAD - TAIL - 1
    if cut > 0:
        answer = read_answer(f"{text[:HEAD]}\n{text[-TAIL:]}", reader)
        if answer.span and answer.span[0] > HEAD:
            answer = Answer(answer.value, answer.reason, (answer.span[0] + cut, answer.span[1] + cut))
        return answer
    if not text.strip():
        return Answer("", "empty")
    tagged = inner(text)
    if tagged:
        answer = _read(text[slice(*tagged)], tagged[0], reader)
        if answer.value or answer.reason != "no_choice":
            return answer
    return _read(text, 0, reader)


def _read(text: str, offset: int, reader: Callable[[str], Reading]) -> Answer:
    folded = Folded(text)
    reading = _before_next(folded.text, reader) or reader(folded.text)
    if reading.value and (reading.reason not in _OVERRULED or not refusals.declines(folded.text)):
        start, end = folded.span(*reading.span)
        return Answer(reading.value, reading.reason, (start + offset, end + offset))
    return Answer("", "declined" if reading.value or refusals.declines(folded.text) else reading.reason)


def _before_next(folded: str, reader: Callable[[str], Reading]) -> Reading | None:
    """Reads what stands before a question that the model goes on to ask itself, if that states an answer."""
    asked = _NEXT.search(folded)
    reading = reader(folded[: asked.start()]) if asked and folded[: asked.start()].strip() else None
    return reading if reading and reading.value and reading.reason not in _OVERRULED else None


def _telling(one: tuple[str, str], other: tuple[str, str]) -> dict[str, str]:
    """Returns the word by which each of two options differs from the other, if one word it is."""
    pairs = list(zip(one[0].split(), other[0].split(), strict=False))
    differ = [pair for pair in pairs if pair[0] != pair[1]]
    if len(differ) != 1 or len(pairs) < 2 or len(one[0].split()) != len(other[0].split()):
        return {}
    return {differ[0][0]: one[1], differ[0][1]: other[1]}


@lru_cache(maxsize=4096)
def _names(labels: tuple[str, ...], options: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Returns every text that names one option, with the label meant."""
    known: dict[str, str] = {}
    for option, label in zip(options, labels, strict=False):
        name = option_text(option, label)
        known[name] = label if name not in known else ""
    # "four" for 4; "one" is mostly a pronoun.
    for name, label in list(known.items()):
        if name in _NUMBERS and _NUMBERS[name] not in known:
            known[_NUMBERS[name]] = label
    if len(known) == 2:
        known |= _telling(*known.items())
    for name, label in list(known.items()):
        for other in _spellings(name):
            known.setdefault(other, label)
    return tuple((name, label) for name, label in known.items() if name and label)


_MEASURE = re.compile(r"(\d[\d.,/]*)( ?)([a-z%°µ]{1,3}[23²³]?)")


def _spellings(name: str) -> Iterator[str]:
    """Yields other ways to write an option: dogs for dog, 5cm for 5 cm."""
    measure = _MEASURE.fullmatch(name)
    if measure:
        yield f"{measure[1]}{'' if measure[2] else ' '}{measure[3]}"
    elif name.isascii() and name.isalpha() and len(name) > 2 and not name.endswith("s"):
        yield name + "s"


@lru_cache(maxsize=4096)
def _things(labels: tuple[str, ...], options: tuple[str, ...]) -> frozenset[str]:
    """Returns the labels of the options that are a noun with its article: "A dog"."""
    return frozenset(
        label for label, option in zip(labels, options, strict=False) if _THING.fullmatch(option.strip(" .").lower())
    )


@lru_cache(maxsize=4096)
def _all_numbers(options: tuple[str, ...]) -> dict[str, int]:
    """Returns the place of each option by its number, {} if not all of them are different whole numbers."""
    values = [option.strip(" .") for option in options]
    numbers = {str(int(value)): place for place, value in enumerate(values) if value.isascii() and value.isdigit()}
    return numbers if len(numbers) == len(options) else {}


_THING = re.compile(r"an? [a-z]+")
# A verb in the singular ends in s, and no noun of one piece goes before another noun.
_COMPOUND = re.compile(
    r" (?!(?:and|or|but|nor|with|in|on|at|by|near|under|over|from|for|to|of|as|than|that|which|who|because|since|so"
    r"|then|while|when|where|if|here|there|too|also|not|out|up|down|into|about|please|i|was|can|will|had|did|may|might|must"
    r"|should|would|could|ran|sat|lay|stood|ate|held)\b)[a-z]{3,}(?<!s)(?<!ed)(?<!ing)(?<!ly)\b"
)


def read_choice(
    text: str, labels: tuple[str, ...], options: Sequence[str] = (), *, forms: Forms | None = None
) -> Answer:
    """Returns the label that an answer states.

    Args:
        text: The answer.
        labels: The labels, in order.
        options: The options' texts, by place; may be empty.
        forms: Every way to write the labels; by default in any case.
    """
    forms = forms or forms_of(labels)
    bare = _BARE.fullmatch(text)
    if bare and bare[1] in forms.meanings:
        return Answer(forms.meanings[bare[1]], "bare", bare.span(1))
    pairs = _names(labels, tuple(options)) if options else ()
    things = _things(labels, tuple(options)) if options else frozenset()
    numbers = _all_numbers(tuple(options)) if options else {}
    lone = _lone(labels)
    shy = labels[0].isdigit()

    def reader(folded: str) -> Reading:
        own = mentions.texts(folded, pairs) if pairs else []
        if things:
            own = [name for name in own if name.value not in things or not _COMPOUND.match(folded, name.end)]
        by_label = list(mentions.labels(folded, forms, shy=shy))
        reading = read(folded, mentions.without_overlap(by_label, own) if own else by_label, labels, lone)
        if not reading.value and reading.reason in ("conflict", "no_choice") and own and numbers:
            counted = read_count(folded)
            if counted.reason in ("stated", "only_number") and counted.value in numbers:
                return Reading(labels[numbers[counted.value]], counted.reason, counted.span)
        return reading

    return read_answer(text, reader)


def _lone(order: tuple[str, ...]) -> Callable[[str, list[tuple[Group, str]]], Reading | None]:
    def found(text: str, judged: list[tuple[Group, str]]) -> Reading | None:
        return (
            agreed(text, judged)
            or lone_label(text, judged)
            or eliminated(text, judged, order)
            or lone_text(text, judged, order)
        )

    return found
