"""VOILA's closed vocabularies, and the search for their values in an answer.

A value is the vocabulary's word (the plural for subjects), or "" if the answer states another
value, or two at once. Synonyms keep age and gender: "girls" are female children, "kids" are no
value, "ladies" are women, "old ladies" senior women. Animals have no age, and the kinds that the
reference's judge accepts (mice for hamsters) are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from scorer.reading.lexicon import Lexicon

PROPERTIES = ("number", "subject_type", "action")
"""The three properties, by the names of the parts of a score."""

Values = Mapping[str, str]
"""Property -> value; without the properties that a text does not mention."""

ANY = "any"

LEXICON = Lexicon(Path(__file__).with_name("lexicon.tsv"))
NUMBERS = tuple(LEXICON.mapping("NUMBERS"))[:4]
"""The numbers, ascending."""


def _pattern(table: str, before: str, after: str) -> tuple[re.Pattern[str], list[str]]:
    values = LEXICON.mapping(table)
    choices = "|".join(f"(?P<v{index}>{synonyms})" for index, synonyms in enumerate(values.values()))
    return re.compile(f"{before}(?:{choices}){after}", re.IGNORECASE), list(values)


_VALUES = {
    "number": _pattern("NUMBERS", r"(?<![\w.,/+-])", r"(?![\w/]|[.,]\d|[\s-]years?\b)"),
    "subject_type": _pattern("SUBJECTS", r"\b", r"(?![\w])"),
    "action": _pattern("ACTIONS", r"\b", LEXICON.source("ACTION_ENDS")),
}


class PropertyValue(NamedTuple):
    """A value and its span."""

    value: str
    start: int
    end: int


def mentions(prop: str, text: str) -> Iterator[PropertyValue]:
    """Yields all values of a property in a text; "" for numbers beyond the vocabulary."""
    pattern, names = _VALUES[prop]
    for match in pattern.finditer(_without_image_numbers(text) if prop == "number" else text):
        yield PropertyValue(names[int((match.lastgroup or "v0")[1:])], *match.span())


def _without_image_numbers(text: str) -> str:
    return LEXICON.IMAGE_NUMBER.sub(lambda match: " " * len(match[0]), text)


def canonical(prop: str, surface: str) -> str | None:
    """Returns the vocabulary's value for a word of the data; None for any other word."""
    pattern, names = _VALUES[prop]
    match = pattern.match(surface)
    if surface == ANY:
        return ANY
    if not match or (match.end() < len(surface) and prop != "action"):
        return None
    return names[int((match.lastgroup or "v0")[1:])] or None


_TRIM = " \t\"'.,;:()[]"


def value_of(prop: str, stated: str) -> str:
    """Reads the text after "number = ", "subject = " or "action = ".

    Returns:
        The value; "any" for exactly that word; "" for unusable text: unknown words, two different
        values, or a hedge.
    """
    bare = LEXICON.PARENTHESIS.sub(" ", stated).strip(_TRIM) or stated.strip(_TRIM)
    if bare.lower() == ANY:
        return ANY
    if LEXICON.VAGUE.search(bare):
        return ""
    if prop == "number":
        bare = LEXICON.LATER.split(bare)[-1]
    values = {mention.value for mention in mentions(prop, bare)}
    return values.pop() if len(values) == 1 else ""


class Label(NamedTuple):
    """One "property = value" of an answer; positions are those of label and value together."""

    prop: str
    value: str
    start: int
    end: int


def labels(text: str) -> list[Label]:
    """Returns all "property = value" of a text in order, without an echoed "{number}"."""
    labelled = []
    matches = list(LEXICON.LABELS.finditer(text))
    for index, match in enumerate(matches):
        limit = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        stop = LEXICON.STOP.search(text, match.end(), limit)
        end = stop.start() if stop else limit
        stated = text[match.end() : end]
        prop = next(prop for prop in PROPERTIES if match[prop])
        value = value_of(prop, stated)
        # "The subject is running" names no subject, where "subject = running" names a wrong one.
        if stated.strip(_TRIM) and not LEXICON.PLACEHOLDER.fullmatch(stated) and (value or not match["verb"]):
            labelled.append(Label(prop, value, match.start(), end))
    return labelled


def described(text: str) -> dict[str, str]:
    """Reads a description of one image, labelled or in free text.

    The first subject and the first action count; subjects joined by "and"
    or "or", and actions joined by "or", are no value. A number belongs to its subject.

    Returns:
        Property -> value, "" for unusable text; without the properties that the text does not mention.
    """
    values: dict[str, str] = {}
    for label in labels(text):
        values.setdefault(label.prop, label.value)
    subject = _first("subject_type", text, LEXICON.JOINED)
    action = _first("action", text, LEXICON.HEDGED)
    number = _number(text, subject)
    for prop, mention in zip(PROPERTIES, (number, subject, action), strict=True):
        if mention:
            values.setdefault(prop, mention.value)
    return values


def _first(prop: str, text: str, joined: re.Pattern[str]) -> PropertyValue | None:
    matches = mentions(prop, text)
    first = next(matches, None)
    second = next((other for other in matches if first and other.value != first.value), None)
    if first and second and joined.match(text[first.end : second.start]):
        return PropertyValue("", first.start, first.end)
    return first


def _number(text: str, subject: PropertyValue | None) -> PropertyValue | None:
    stated = list(mentions("number", text))
    if subject is None:
        return next((mention for mention in stated if LEXICON.NOUN.match(text, mention.end)), None)
    start = 1 + max(text.rfind(sign, 0, subject.start) for sign in ".;:!?\n")
    near = [mention for mention in stated if start <= mention.start < subject.start]
    if near and len(text[near[-1].end : subject.start].split()) <= 5:
        return near[-1]
    after = LEXICON.AFTER.match(text, subject.end)
    if after:
        mention = next(mentions("number", after["number"]), None)
        if mention:
            return PropertyValue(mention.value, after.start("number"), after.end("number"))
    if LEXICON.ARTICLE.search(text, start, subject.start) and not LEXICON.PLURAL.match(
        text[subject.start : subject.end]
    ):
        return PropertyValue("one", subject.start, subject.end)
    return None
