"""The names of a question's options, and the search for them in an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import NamedTuple

from scorer.reading import partial_match
from scorer.reading.mentions import LEXICON, TEXT, Mention, option_text, texts, without_article, without_overlap
from scorer.reading.numbers import WORDS, value_of

_NUMBERS = {str(value): word for word, value in WORDS.items() if value != 1}
_ACROSS, _UPRIGHT, _COMPASS = map(frozenset, map(LEXICON.entries, ("ACROSS", "UPRIGHT", "COMPASS")))
_DIRECTIONS = _ACROSS | _UPRIGHT | _COMPASS
_COLORS = frozenset(LEXICON.entries("COLORS"))
_SENTENCE, _NEAR = 120, 40
_OTHER_KIND, _ADJECTIVES = map(LEXICON.mapping, ("OTHER_KIND", "ADJECTIVES"))
_SAME = {phrase: others.split(", ") for phrase, others in LEXICON.mapping("SAME").items()}
_OPPOSITES = ({"true", "false"}, {"correct", "incorrect"}, {"right", "wrong"})


@dataclass(frozen=True)
class Options:
    """The options of one question.

    Attributes:
        pairs: The searched text and the label of all options with a text.
        names: All texts that name exactly one option, with its label.
        loose: The options that are also found by their telling words.
        things: Labels of the options that are a noun with its article: "A dog".
        yes_no: The labels of two options that are or begin with "yes" and "no"; else None.
        opposites: Whether there are two options that exclude each other.
        corners: Whether there are options in both directions, so that "upper left" is none of them.
        sides: For two options on the side of one thing seen from another, the two things; else None.
    """

    pairs: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str], ...]
    loose: tuple[partial_match.PartialName, ...]
    things: frozenset[str]
    yes_no: tuple[str, str] | None
    opposites: bool
    corners: bool
    sides: tuple[str, str] | None

    @cached_property
    def form(self) -> Form:
        """The common and the distinctive parts of the options."""
        return form_of(self.pairs)

    @cached_property
    def colored(self) -> bool:
        """True if an option names a color."""
        return any(not _COLORS.isdisjoint(name.split()) for name, _ in self.names)

    def find(self, folded: str) -> list[Mention]:
        """Returns all mentions of options by their text in a folded text."""
        named = texts(folded, self.names, self.loose) if self.names else []
        named = [mention for mention in named if not self._means_else(folded, mention)]
        return without_overlap(named, yes_no(folded, *self.yes_no)) if self.yes_no else named

    def find_parts(self, folded: str) -> list[Mention]:
        """Returns all mentions of options by their distinctive parts: "10" for "10 years" if all are years.

        "The tree is behind the car" does not mention "The car is behind the tree": the common words differ in order.
        """
        form = self.form
        low = folded.lower() if form.parts else ""
        positions = [position for word in form.shared if (position := low.find(word)) >= 0]
        return [
            mention
            for mention in (texts(folded, form.parts) if form.parts and positions == sorted(positions) else ())
            if not self._means_else(folded, mention)
            and not (folded[mention.start].isdigit() and LEXICON.OTHER_UNIT.match(folded, mention.end))
        ]

    def _means_else(self, text: str, mention: Mention) -> bool:
        """Returns true if a mention is part of the name of another thing: "dog stand", "hot dog", "upper left"."""
        if self.sides and _of_the_other(text, mention, *self.sides):
            return True
        if mention.value in self.things and LEXICON.COMPOUND.match(text, mention.end):
            return True
        name = text[mention.start : mention.end].lower()
        if self.colored and not _COLORS.isdisjoint(name.split()):
            return self._among_colors(text, mention)
        kinds = _OTHER_KIND.get(name.removesuffix("s"), "")
        if not kinds and name not in _DIRECTIONS:
            return False
        before = text[max(mention.start - 16, 0) : mention.start].lower()
        if name in _COMPASS and LEXICON.COMPASS_BEHIND.match(text, mention.end):
            return True
        if self.corners and name in _ACROSS | _UPRIGHT:
            return bool(LEXICON.CORNER_BEFORE.search(before) or LEXICON.CORNER_BEHIND.match(text.lower(), mention.end))
        attribute = before.replace("-", " ").rpartition(" ")[0].rpartition(" ")[2]
        return attribute in kinds.split() and before.endswith((" ", "-"))

    def _among_colors(self, text: str, mention: Mention) -> bool:
        """Returns true if a mention is part of a list of colors that are not all options: "brown and white"."""
        low = max(mention.start - _NEAR, 0)
        start, end = mention.start - low, mention.end - low
        option_names = [name for name, _ in self.names]
        return any(
            match.start() < end
            and start < match.end()
            and not (start <= match.start() and match.end() <= end)
            and not all(color in option_names for color in LEXICON.COLORS.findall(match[0]))
            for match in LEXICON.COLOR_LIST.finditer(text[low : mention.end + _NEAR].lower())
        )


NO_OPTIONS = Options((), (), (), frozenset(), None, False, False, None)


@lru_cache(maxsize=4096)
def options_of(labels: tuple[str, ...], options: tuple[str, ...]) -> Options:
    """Returns the names of the options with these labels."""
    if not options:
        return NO_OPTIONS
    named = list(zip(labels, options, strict=False))
    pairs = tuple((name, label) for label, option in named if (name := option_text(option, label)))
    by_name = dict(pairs)
    # Paris for "Paris, France"; kitchen where all options are of the form "In the kitchen".
    places, rooms = (_parts(pattern, pairs) for pattern in (LEXICON.PLACE, LEXICON.IN))
    firsts = {first for (first, *_), _ in places}
    if len(firsts) < len(places) or firsts & {around for (_, around, *_), _ in places}:
        places = []
    if len({preposition for (preposition, *_), _ in rooms}) != 1:
        rooms = []
    says = {name.partition(",")[0]: (name.partition(", ")[2], label) for name, label in pairs}
    yes_no = len(pairs) == 2 and says.keys() == {"yes", "no"}
    return Options(
        pairs,
        _names(
            (tuple(says.values()) + tuple(pair for pair in pairs if pair[0] not in says) if yes_no else pairs)
            + tuple((p[0], label) for p, label in places)
            + tuple((p[1], label) for p, label in rooms)
        ),
        partial_match.partial_names(pairs),
        frozenset(label for label, option in named if LEXICON.THING.fullmatch(option.strip(" .").lower()))
        | {label for _, label in rooms},
        (says["yes"][1], says["no"][1]) if yes_no else None,
        len(options) == 2 and set(by_name) in _OPPOSITES,
        bool(by_name.keys() & _ACROSS and by_name.keys() & _UPRIGHT),
        _sides(pairs),
    )


def _parts(pattern: re.Pattern[str], pairs: tuple[tuple[str, str], ...]) -> list[tuple[tuple[str, ...], str]]:
    """Returns the groups of a pattern in all options, with the labels; [] if an option does not match."""
    parts = [(match.groups(), label) for name, label in pairs if (match := pattern.fullmatch(name))]
    return parts if len(parts) == len(pairs) else []


def _sides(pairs: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    """Returns the thing and its reference if two options place the thing on sides of the reference; else None."""
    if len(pairs) != 2 or not _telling(pairs).keys() & (_ACROSS | _UPRIGHT):
        return None
    parts = LEXICON.SIDES.fullmatch(pairs[0][0])
    return (parts[1], parts[2]) if parts and parts[1] != parts[2] else None


def _of_the_other(text: str, mention: Mention, thing: str, other: str) -> bool:
    """Returns true if a side is that of another thing: "The woman is on the left", if the question is on her bag."""
    before = text[max(mention.start - _SENTENCE, 0) : mention.start].lower()
    clause = LEXICON.STOP.split(before)[-1]
    verb = LEXICON.IS.search(clause)
    subject = clause[: verb.start()].split() if verb else []
    if subject[-1:] == [other] and thing not in subject:
        return True
    new = LEXICON.THERE_IS.search(clause) or LEXICON.LIES_NEW.match(text[mention.end : mention.end + _SENTENCE].lower())
    return bool(new and thing not in new[1].split())


def _names(texts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns all texts that name exactly one option, with its label."""
    known: dict[str, str] = {}
    for name, label in texts:
        known[name] = label if name not in known else ""
    # "four" for 4; "one" is mostly a pronoun.
    known = {_NUMBERS[name]: label for name, label in known.items() if name in _NUMBERS} | known
    if len(known) == 2:
        known |= _telling(tuple(known.items()))
    others: dict[str, set[str]] = {}
    for name, label in known.items():
        for other in _spellings(name):
            others.setdefault(other, set()).add(label)
    known = {name: labels.pop() for name, labels in others.items() if len(labels) == 1} | known
    return tuple((name, label) for name, label in known.items() if name and label)


def _telling(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Returns the distinctive words of options of one form: "brown" of "The color of the dog is brown"."""
    rows = [name.split() for name, _ in pairs]
    first = _alike(rows)
    rests = [part[first:] for part in rows]
    last = _alike([rest[::-1] for rest in rests])
    parts = [" ".join(rest[: len(rest) - last]) for rest in rests]
    if not (first or last) or not all(parts):
        return {}
    if len(pairs) > 2 and not all((len(part) > 1 or part.isdigit()) and partial_match.telling(part) for part in parts):
        return {}
    return {part: label for part, (_, label) in zip(map(without_article, parts), pairs, strict=True)}


class Form(NamedTuple):
    """The common and the distinctive parts of options of one form.

    Attributes:
        parts: The distinctive parts, with their labels: "10" of "10 years", "red" of "It is red"; () without a form.
        shared: The common telling words, in order.
        numbers: Number -> label; {} unless all options have different whole numbers.
    """

    parts: tuple[tuple[str, str], ...]
    shared: tuple[str, ...]
    numbers: dict[str, str]


def form_of(pairs: tuple[tuple[str, str], ...]) -> Form:
    """Returns the form of some options (`Options.pairs`)."""
    parts = _differing(pairs)
    numbers = {str(value_of(part)): label for part, label in (parts or pairs)}
    others = [set(partial_match.telling(name)) for name, _ in pairs[1:]] if parts else []
    shared = partial_match.telling(pairs[0][0]) if parts else []
    return Form(
        parts,
        tuple(word for word in shared if all(word in other for other in others)),
        numbers if len(numbers) == len(pairs) and "None" not in numbers else {},
    )


def _alike(rows: Sequence[Sequence[str]]) -> int:
    """Returns the number of first words that all rows share."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False)))


def _differing(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns the distinctive parts of options of one form, with labels: "10" of "10 years" and of "$10"."""
    amounts = _parts(LEXICON.AMOUNT, pairs)
    units = {(before, after) for (before, _, after), _ in amounts}
    if not amounts:
        return tuple(_telling(pairs).items())
    return tuple((parts[1], label) for parts, label in amounts) if len(units) == 1 and units != {("", "")} else ()


def _spellings(name: str) -> Iterator[str]:
    """Yields other spellings of an option: dogs for dog, 5cm for 5 cm, north-east for northeast, blue and white."""
    measure = LEXICON.MEASURE.fullmatch(name)
    if measure:
        yield f"{measure[1]}{'' if measure[2] else ' '}{measure[3]}"
        return
    pair = LEXICON.PAIR.fullmatch(name)
    if pair:
        yield f"{pair[2]} and {pair[1]}"
        return
    if " = " in name:
        yield name.replace(" = ", "=")
    span = re.fullmatch(r"(\d[\d.,]*) ?- ?(\d[\d.,]*)(.*)", name)
    if span:
        yield from (f"{span[1]} to {span[2]}{span[3]}", f"between {span[1]} and {span[2]}{span[3]}")
    compass = re.fullmatch(r"(north|south)[ -]?(east|west)(ern)?", name)
    if compass:
        yield from (f"{compass[1]}{blank}{compass[2]}{compass[3] or ''}" for blank in ("", " "))
    yield from _reworded(name)
    if not (name.isascii() and name.isalpha() and len(name) > 2):
        return
    yield from _ADJECTIVES.get(name, "").split()
    if name.endswith("ness") and len(name) > 6:
        stem = name.removesuffix("ness")
        yield stem[:-1] + "y" if stem.endswith("i") else stem
    elif not name.endswith("s"):
        yield name + "s"


def _reworded(name: str) -> Iterator[str]:
    """Yields other wordings of an option: "under" for "underneath", "only figure 2", a list for a chain of arrows."""
    percent = re.fullmatch(r"(.*\d)%(.*)", name)
    if percent:
        yield f"{percent[1]} %{percent[2]}"
    only = re.fullmatch(r"(only )?(.+?)( only)?", name)
    if only and bool(only[1]) != bool(only[3]):
        yield f"{only[2]} only" if only[1] else f"only {only[2]}"
    steps = name.split(" → ")
    if len(steps) > 2:
        yield from (between.join(steps) for between in (", ", " - ", ", then ", " then ", " > "))
        yield from (f"{', '.join(steps[:-1])}{last} {steps[-1]}" for last in (" and", ", and", " then", ", then"))
    for phrase, others in _SAME.items():
        for other in others if " " in name else ():
            reworded = re.sub(rf"\b{re.escape(phrase)}\b", other, name)
            if reworded != name:
                yield reworded


def yes_no(text: str, yes: str, no: str) -> list[Mention]:
    """Returns all mentions of yes and no in a folded text, with the labels that mean them."""
    return [
        Mention(*match.span(), yes if match["yes"] or match["si"] else no, TEXT, *match.span())
        for match in LEXICON.YES_NO.finditer(text)
    ]


def yes_no_abroad(options: Sequence[str]) -> tuple[str, str] | None:
    """Returns the options that are yes and no in another language than English; None if there are none."""
    yes = [option for option in options if LEXICON.YES_ABROAD.fullmatch(option.strip(" ."))]
    no = [option for option in options if LEXICON.NO_ABROAD.fullmatch(option.strip(" ."))]
    return (yes[0], no[0]) if len(yes) == len(no) == 1 else None
