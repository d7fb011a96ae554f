"""Finding in an answer the parts that count: each image's description, and the last conclusion."""

from __future__ import annotations

import re

from scorer.rules.voila.vocabulary import ANY, LEXICON, PROPERTIES, Label, Values, described, labels, mentions, value_of

_PLACES = ("one", "two", "three", "four", "first", "second", "third", "fourth", "1st", "2nd", "3rd", "4th")
_PLACE = {word: place % 4 + 1 for place, word in enumerate(_PLACES)} | {str(place): place for place in range(1, 5)}


def images_of(text: str) -> list[Values]:
    """Returns what an answer says of images 1, 2 and 3; an empty mapping where it says nothing.

    Images are told apart by number ("Image 1:", "the first image", "1."), else by order where
    exactly three descriptions stand. Of several for one image the last whole one counts, else
    the first that says anything.
    """
    marks = [(_PLACE[(match[1] or match[2]).lower()], match) for match in LEXICON.IMAGE.finditer(text)]
    if not marks:
        marks = [(int(match["listed"]), match) for match in LEXICON.LISTED.finditer(text)]
    if not marks:
        return _in_order(text)
    ends = [match.start() for _, match in marks[1:]] + [len(text)]
    read: dict[int, list[Values]] = {}
    for (place, match), end in zip(marks, ends, strict=True):
        values = described(text[match.end() : end])
        if values:
            read.setdefault(place, []).append(values)
    return [_best(read.get(place, [])) for place in (1, 2, 3)]


def _best(read: list[Values]) -> Values:
    whole = [values for values in read if len(values) == len(PROPERTIES)]
    return whole[-1] if whole else read[0] if read else {}


def _in_order(text: str) -> list[Values]:
    for pieces in (LEXICON.UNNUMBERED.split(text)[1:], text.split("\n"), LEXICON.ANSWERS_SENTENCE.split(text)):
        read: list[Values] = [values for values in map(described, pieces) if len(values) > 1]
        if len(read) == 3:
            return read
    return [{}, {}, {}]


_NEAR = 80
"""Characters between two labelled properties of one statement."""

_EDGE = " \t\"'()."


def conclusion(text: str) -> tuple[Values, tuple[int, int]]:
    """Returns what an answer concludes for the fourth image, and where it stands in the text.

    The last statement of all three properties by name ("number = two, subject = cats, action =
    walking") is the conclusion, one that is called the answer before others. Without one, names
    and the free words of the last sentence that speaks of the answer are read together.
    """
    statements = _statements(text)
    whole = [statement for statement in statements if len(statement) == len(PROPERTIES)]
    if whole:
        named = [one for one in whole if LEXICON.ANSWER.search(text, max(0, one[0].start - _NEAR), one[0].start + 1)]
        last = (named or whole)[-1]
        return {label.prop: label.value for label in last}, (last[0].start, last[-1].end)
    values: dict[str, str] = {}
    places: list[tuple[int, int]] = []
    for label in (label for statement in statements[-1:] for label in statement):
        values[label.prop] = label.value
        places.append((label.start, label.end))
    for start, end in _candidates(text):
        free = _positional(text[start:end]) or described(text[start:end])
        if free:
            values = {**free, **values}
            places.append((start, end))
            break
    if not values:
        return {}, (0, 0)
    return values, (min(start for start, _ in places), max(end for _, end in places))


def _statements(text: str) -> list[list[Label]]:
    """Groups labels that stand together, each property once; with "the answer is" a new group begins."""
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
    """Returns where the conclusion may stand in free words, the likeliest place first."""
    places = []
    for mark in (LEXICON.ANSWER, LEXICON.FOURTH):
        found = list(mark.finditer(text))
        if found:
            start = found[-1].end()
            verb = LEXICON.VERB.match(text, start)
            start = verb.end() if verb else start
            stop = LEXICON.END.search(text, start)
            places.append((start, stop.start() if stop else len(text)))
    lines = [match.span() for match in re.finditer(r"[^\n]*\S[^\n]*", text)]
    return places + lines[-1:]


def _positional(text: str) -> Values:
    """Reads "any, cats, walking" and "two any walking": three values in the properties' order."""
    bare = text.strip(_EDGE)
    pieces = [piece for piece in re.split(r"\s*,\s*(?:and\s+)?", bare) if piece]
    if len(pieces) == 3:
        values = {prop: value_of(prop, piece) for prop, piece in zip(PROPERTIES, pieces, strict=True)}
        if all(values.values()):
            return values
    words = bare.split()
    if ANY not in (word.lower() for word in words):
        return {}
    for cut in range(2, len(words)):
        parts = (words[0], " ".join(words[1:cut]), " ".join(words[cut:]))
        if all(_exactly(prop, part) for prop, part in zip(PROPERTIES, parts, strict=True)):
            return {prop: value_of(prop, part) for prop, part in zip(PROPERTIES, parts, strict=True)}
    return {}


def _exactly(prop: str, part: str) -> bool:
    """Whether a part is one value of the property and no more, but for what an action acts on."""
    if part.lower() == ANY:
        return True
    found = next(mentions(prop, part), None)
    return found is not None and bool(found.value) and found.start == 0 and (prop == "action" or found.end == len(part))
