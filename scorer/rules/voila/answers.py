"""Extracts the parts of an answer that count: the description of each image, and the last conclusion."""

from __future__ import annotations

import re

from scorer.rules.voila.vocabulary import ANY, LEXICON, PROPERTIES, Label, Values, described, labels, mentions, value_of

_ORDINALS = ("one", "two", "three", "four", "first", "second", "third", "fourth", "1st", "2nd", "3rd", "4th")
_NUMBER_OF = {word: index % 4 + 1 for index, word in enumerate(_ORDINALS)} | {str(n): n for n in range(1, 5)}


def images_of(text: str) -> list[Values]:
    """Returns the values that an answer states for images 1, 2 and 3; an empty mapping for an image without any.

    Images are identified by number ("Image 1:", "the first image", "1."), else by order if there are
    exactly three descriptions. Of several descriptions of one image the last complete one counts, else
    the first with any value.
    """
    marks = [(_NUMBER_OF[(match[1] or match[2]).lower()], match) for match in LEXICON.IMAGE.finditer(text)]
    if not marks:
        marks = [(int(match["listed"]), match) for match in LEXICON.LISTED.finditer(text)]
    if not marks:
        return _in_order(text)
    ends = [match.start() for _, match in marks[1:]] + [len(text)]
    descriptions: dict[int, list[Values]] = {}
    for (number, match), end in zip(marks, ends, strict=True):
        values = described(text[match.end() : end])
        if values:
            descriptions.setdefault(number, []).append(values)
    return [_best(descriptions.get(number, [])) for number in (1, 2, 3)]


def _best(descriptions: list[Values]) -> Values:
    complete = [values for values in descriptions if len(values) == len(PROPERTIES)]
    return complete[-1] if complete else descriptions[0] if descriptions else {}


def _in_order(text: str) -> list[Values]:
    for pieces in (LEXICON.UNNUMBERED.split(text)[1:], text.split("\n"), LEXICON.ANSWERS_SENTENCE.split(text)):
        descriptions: list[Values] = [values for values in map(described, pieces) if len(values) > 1]
        if len(descriptions) == 3:
            return descriptions
    return [{}, {}, {}]


_NEAR = 80
"""Characters between two labelled properties of one statement."""

_EDGE = " \t\"'()."


def conclusion(text: str) -> tuple[Values, tuple[int, int]]:
    """Returns the values that an answer concludes for the fourth image, and their span in the text.

    The conclusion is the last statement of all three properties by name ("number = two, subject = cats, action =
    walking"); those called the answer come first. Without one, named properties are read together with the free text
    of the last sentence about the answer.
    """
    statements = _statements(text)
    complete = [statement for statement in statements if len(statement) == len(PROPERTIES)]
    if complete:
        named = [
            group
            for group in complete
            if LEXICON.ANSWER.search(text, max(0, group[0].start - _NEAR), group[0].start + 1)
        ]
        last = (named or complete)[-1]
        return {label.prop: label.value for label in last}, (last[0].start, last[-1].end)
    values: dict[str, str] = {}
    spans: list[tuple[int, int]] = []
    for label in (label for statement in statements[-1:] for label in statement):
        values[label.prop] = label.value
        spans.append((label.start, label.end))
    for start, end in _candidates(text):
        free = _positional(text[start:end]) or described(text[start:end])
        if free:
            values = {**free, **values}
            spans.append((start, end))
            break
    if not values:
        return {}, (0, 0)
    return values, (min(start for start, _ in spans), max(end for _, end in spans))


def _statements(text: str) -> list[list[Label]]:
    """Groups adjacent labels of different properties; "the answer is" begins a new group."""
    groups: list[list[Label]] = []
    for label in labels(text):
        last = groups[-1] if groups else []
        joins = last and label.start - last[-1].end <= _NEAR and all(label.prop != other.prop for other in last)
        if joins and not LEXICON.ANSWER.search(text, last[-1].end, label.start + 1):
            last.append(label)
        else:
            groups.append([label])
    return groups


def _candidates(text: str) -> list[tuple[int, int]]:
    """Returns the spans of free text that may hold the conclusion, the likeliest first."""
    spans = []
    for mark in (LEXICON.ANSWER, LEXICON.FOURTH):
        matches = list(mark.finditer(text))
        if matches:
            start = matches[-1].end()
            verb = LEXICON.VERB.match(text, start)
            start = verb.end() if verb else start
            stop = LEXICON.END.search(text, start)
            spans.append((start, stop.start() if stop else len(text)))
    lines = [match.span() for match in re.finditer(r"[^\n]*\S[^\n]*", text)]
    return spans + lines[-1:]


def _positional(text: str) -> Values:
    """Reads "any, cats, walking" and "two any walking": three values in the properties' order."""
    bare = text.strip(_EDGE)
    pieces = [piece for piece in re.split(r"\s*,\s*(?:and\s+)?", bare) if piece]
    if len(pieces) == 3:
        values = {prop: value_of(prop, piece) for prop, piece in zip(PROPERTIES, pieces, strict=True)}
        if all(values.values()):
            return values
    tokens = bare.split()
    if ANY not in (token.lower() for token in tokens):
        return {}
    for cut in range(2, len(tokens)):
        parts = (tokens[0], " ".join(tokens[1:cut]), " ".join(tokens[cut:]))
        if all(_exactly(prop, part) for prop, part in zip(PROPERTIES, parts, strict=True)):
            return {prop: value_of(prop, part) for prop, part in zip(PROPERTIES, parts, strict=True)}
    return {}


def _exactly(prop: str, part: str) -> bool:
    """Returns true if a part is exactly one value of the property; an action may be followed by its object."""
    if part.lower() == ANY:
        return True
    mention = next(mentions(prop, part), None)
    return (
        mention is not None
        and bool(mention.value)
        and mention.start == 0
        and (prop == "action" or mention.end == len(part))
    )
