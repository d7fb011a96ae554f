"""VOILA's closed vocabularies, and finding their values in an answer's words.

A value found is the vocabulary's own word (the plural for subjects), or "" where something is
stated that is none of them, or two of them at once. Synonyms keep age and gender: "girls" are
female children, "kids" are nothing, "ladies" are women, "old ladies" senior women. For animals
age is no property, and the kinds that the reference's judge lets pass (mice for hamsters) pass.
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
"""Property -> value; a property of which nothing is said is missing."""

ANY = "any"

LEXICON = Lexicon(Path(__file__).with_name("lexicon.tsv"))
NUMBERS = tuple(LEXICON.mapping("NUMBERS"))[:4]
"""The numbers, ascending."""


def _pattern(table: str, before: str, after: str) -> tuple[re.Pattern[str], list[str]]:
    values = LEXICON.mapping(table)
    choices = "|".join(f"(?P<v{place}>{words})" for place, words in enumerate(values.values()))
    return re.compile(f"{before}(?:{choices}){after}", re.IGNORECASE), list(values)


_VALUES = {
    "number": _pattern("NUMBERS", r"(?<![\w.,/+-])", r"(?![\w/]|[.,]\d|[\s-]years?\b)"),
    "subject_type": _pattern("SUBJECTS", r"\b", r"(?![\w])"),
    "action": _pattern("ACTIONS", r"\b", LEXICON.source("ACTION_ENDS")),
}


class PropertyValue(NamedTuple):
    """A value and where it stands."""

    value: str
    start: int
    end: int


def mentions(prop: str, text: str) -> Iterator[PropertyValue]:
    """Yields every value of a property in a text; for numbers, "" for those beyond the vocabulary."""
    pattern, names = _VALUES[prop]
    for match in pattern.finditer(_without_image_numbers(text) if prop == "number" else text):
        yield PropertyValue(names[int((match.lastgroup or "v0")[1:])], *match.span())


def _without_image_numbers(text: str) -> str:
    return LEXICON.IMAGE_NUMBER.sub(lambda match: " " * len(match[0]), text)


def canonical(prop: str, surface: str) -> str | None:
    """Returns the vocabulary's value for one of the data's own words, None if it is none."""
    pattern, names = _VALUES[prop]
    match = pattern.match(surface)
    if surface == ANY:
        return ANY
    if not match or (match.end() < len(surface) and prop != "action"):
        return None
    return names[int((match.lastgroup or "v0")[1:])] or None


_TRIM = " \t\"'.,;:()[]"


def value_of(prop: str, stated: str) -> str:
    """Reads what stands behind "number = ", "subject = " or "action = ".

    Returns:
        The value; "any" where exactly that stands there; "" where it cannot be used: unknown
        words, two different values, or a hedge.
    """
    bare = LEXICON.PARENTHESIS.sub(" ", stated).strip(_TRIM) or stated.strip(_TRIM)
    if bare.lower() == ANY:
        return ANY
    if LEXICON.VAGUE.search(bare):
        return ""
    if prop == "number":
        bare = LEXICON.LATER.split(bare)[-1]
    values = {found.value for found in mentions(prop, bare)}
    return values.pop() if len(values) == 1 else ""


class Label(NamedTuple):
    """One "property = value" of an answer; positions are those of label and value together."""

    prop: str
    value: str
    start: int
    end: int


def labels(text: str) -> list[Label]:
    """Returns every "property = value" in a text, in order, an echoed "{number}" left out."""
    found = []
    matches = list(LEXICON.LABELS.finditer(text))
    for place, match in enumerate(matches):
        limit = matches[place + 1].start() if place + 1 < len(matches) else len(text)
        stop = LEXICON.STOP.search(text, match.end(), limit)
        end = stop.start() if stop else limit
        stated = text[match.end() : end]
        prop = next(prop for prop in PROPERTIES if match[prop])
        value = value_of(prop, stated)
        # "The subject is running" names no subject, where "subject = running" names a wrong one.
        if stated.strip(_TRIM) and not LEXICON.PLACEHOLDER.fullmatch(stated) and (value or not match["verb"]):
            found.append(Label(prop, value, match.start(), end))
    return found


def described(text: str) -> dict[str, str]:
    """Reads a description of one image, labelled or in free words.

    The first subject and the first action named are the description's; subjects joined by "and"
    or "or", and actions joined by "or", are no value at all. A number belongs to its subject.

    Returns:
        Property -> value, "" where something unusable is stated; nothing where nothing is.
    """
    read: dict[str, str] = {}
    for label in labels(text):
        read.setdefault(label.prop, label.value)
    subject = _first("subject_type", text, LEXICON.JOINED)
    action = _first("action", text, LEXICON.HEDGED)
    number = _number(text, subject)
    for prop, found in zip(PROPERTIES, (number, subject, action), strict=True):
        if found:
            read.setdefault(prop, found.value)
    return read


def _first(prop: str, text: str, joined: re.Pattern[str]) -> PropertyValue | None:
    found = mentions(prop, text)
    first = next(found, None)
    second = next((other for other in found if first and other.value != first.value), None)
    if first and second and joined.match(text[first.end : second.start]):
        return PropertyValue("", first.start, first.end)
    return first


def _number(text: str, subject: PropertyValue | None) -> PropertyValue | None:
    stated = list(mentions("number", text))
    if subject is None:
        return next((found for found in stated if LEXICON.NOUN.match(text, found.end)), None)
    start = 1 + max(text.rfind(sign, 0, subject.start) for sign in ".;:!?\n")
    near = [found for found in stated if start <= found.start < subject.start]
    if near and len(text[near[-1].end : subject.start].split()) <= 5:
        return near[-1]
    after = LEXICON.AFTER.match(text, subject.end)
    if after:
        found = next(mentions("number", after["number"]), None)
        if found:
            return PropertyValue(found.value, after.start("number"), after.end("number"))
    if LEXICON.ARTICLE.search(text, start, subject.start) and not LEXICON.PLURAL.match(
        text[subject.start : subject.end]
    ):
        return PropertyValue("one", subject.start, subject.end)
    return None
