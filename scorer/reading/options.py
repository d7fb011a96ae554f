"""What the options of a question are called, and where an answer names them by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from scorer.reading import partial_match
from scorer.reading.mentions import LEXICON, TEXT, Mention, option_text, texts
from scorer.reading.numbers import WORDS

_NUMBERS = {str(value): word for word, value in WORDS.items() if value != 1}
_ACROSS, _UPRIGHT, _COMPASS = map(frozenset, map(LEXICON.entries, ("ACROSS", "UPRIGHT", "COMPASS")))
_DIRECTIONS = _ACROSS | _UPRIGHT | _COMPASS
_SENTENCE = 120
_OTHER_KIND, _ADJECTIVES = map(LEXICON.mapping, ("OTHER_KIND", "ADJECTIVES"))
_OPPOSITES = ({"true", "false"}, {"correct", "incorrect"}, {"right", "wrong"})


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one question.

    Attributes:
        whole: Each option's text as it is searched, with its label; none that names nothing.
        names: Every text that names one option, with the label meant.
        loose: The options that are found by their telling words.
        things: Labels of the options that are a noun with its article: "A dog".
        numbers: The place of each option by its number, {} if not all are different whole numbers.
        yes_no: The labels of "yes" and of "no", where these are the two options.
        opposites: Whether there are two options, of which one holds where the other does not.
        amounts: The options' numbers without the unit that all of them share, with the labels meant.
        corners: Whether there are options in both directions, so that "upper left" is neither of them.
        sides: Of two options that say on which side of another a thing is, the thing and the other; None of any else.
    """

    whole: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str], ...]
    loose: tuple[partial_match.Loose, ...]
    things: frozenset[str]
    numbers: dict[str, int]
    yes_no: tuple[str, str] | None
    opposites: bool
    amounts: tuple[tuple[str, str], ...]
    corners: bool
    sides: tuple[str, str] | None

    def find(self, folded: str) -> list[Mention]:
        """Returns every mention of an option by its words in a folded text."""
        if self.yes_no:
            return yes_no(folded, *self.yes_no)
        found = texts(folded, self.names, self.loose) if self.names else []
        return [mention for mention in found if not self._means_else(folded, mention)]

    def find_amounts(self, folded: str) -> list[Mention]:
        """Returns every mention of an option by its number alone, "10" for "10 years" where all are years."""
        found = texts(folded, self.amounts) if self.amounts else []
        return [mention for mention in found if not LEXICON.OTHER_UNIT.match(folded, mention.end)]

    def _means_else(self, text: str, mention: Mention) -> bool:
        """Whether the words are part of the name of another thing: "dog stand", "hot dog", "upper left"."""
        if self.sides and _of_the_other(text, mention, *self.sides):
            return True
        if mention.value in self.things and LEXICON.COMPOUND.match(text, mention.end):
            return True
        name = text[mention.start : mention.end].lower()
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


NO_OPTIONS = Options((), (), (), frozenset(), {}, None, False, (), False, None)


@lru_cache(maxsize=4096)
def options_of(labels: tuple[str, ...], options: tuple[str, ...]) -> Options:
    """Returns what the options with these labels are called."""
    if not options:
        return NO_OPTIONS
    named = list(zip(labels, options, strict=False))
    whole = tuple((name, label) for label, option in named if (name := option_text(option, label)))
    by_name = dict(whole)
    # Paris for "Paris, France"; kitchen where all options are of the form "In the kitchen"; 10 for "10 years".
    places, rooms, amounts = (_parts(pattern, whole) for pattern in (LEXICON.PLACE, LEXICON.IN, LEXICON.AMOUNT))
    firsts = {first for (first, *_), _ in places}
    if len(firsts) < len(places) or firsts & {around for (_, around, *_), _ in places}:
        places = []
    if len({preposition for (preposition, *_), _ in rooms}) != 1:
        rooms = []
    units = {(before, behind) for (before, _, behind), _ in amounts}
    numbers = [option.strip(" .") for option in options]
    numbers = [str(int(number)) for number in numbers if number.isascii() and number.isdigit()]
    return Options(
        whole,
        _names(
            whole + tuple((parts[0], label) for parts, label in places) + tuple((p[1], label) for p, label in rooms)
        ),
        partial_match.loose_names(whole),
        frozenset(label for label, option in named if LEXICON.THING.fullmatch(option.strip(" .").lower()))
        | {label for _, label in rooms},
        {number: place for place, number in enumerate(numbers)} if len(set(numbers)) == len(options) else {},
        (by_name["yes"], by_name["no"]) if set(by_name) == {"yes", "no"} and len(options) == 2 else None,
        len(options) == 2 and set(by_name) in _OPPOSITES,
        tuple((parts[1], label) for parts, label in amounts) if len(units) == 1 and units != {("", "")} else (),
        bool(by_name.keys() & _ACROSS and by_name.keys() & _UPRIGHT),
        _sides(whole),
    )


def _parts(pattern: re.Pattern[str], whole: tuple[tuple[str, str], ...]) -> list[tuple[tuple[str, ...], str]]:
    """Returns the groups of a pattern in every option, with its label; nothing if an option does not match."""
    parts = [(match.groups(), label) for name, label in whole if (match := pattern.fullmatch(name))]
    return parts if len(parts) == len(whole) else []


def _sides(whole: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    """Returns the thing and the other where two options say on which side of the other the thing is."""
    if len(whole) != 2 or not _telling(*whole).keys() & (_ACROSS | _UPRIGHT):
        return None
    parts = LEXICON.SIDES.fullmatch(whole[0][0])
    return (parts[1], parts[2]) if parts and parts[1] != parts[2] else None


def _of_the_other(text: str, mention: Mention, thing: str, other: str) -> bool:
    """Whether a side is that of another thing: "The woman is on the left" where that of her bag is asked for."""
    before = text[max(mention.start - _SENTENCE, 0) : mention.start].lower()
    clause = LEXICON.STOP.split(before)[-1]
    said = LEXICON.IS.search(clause)
    subject = clause[: said.start()].split() if said else []
    if subject[-1:] == [other] and thing not in subject:
        return True
    new = LEXICON.THERE_IS.search(clause) or LEXICON.LIES_NEW.match(text[mention.end : mention.end + _SENTENCE].lower())
    return bool(new and thing not in new[1].split())


def _names(texts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns every text that names one option, with the label meant."""
    known: dict[str, str] = {}
    for name, label in texts:
        known[name] = label if name not in known else ""
    # "four" for 4; "one" is mostly a pronoun.
    known = {_NUMBERS[name]: label for name, label in known.items() if name in _NUMBERS} | known
    if len(known) == 2:
        known |= _telling(*known.items())
    others: dict[str, set[str]] = {}
    for name, label in known.items():
        for other in _spellings(name):
            others.setdefault(other, set()).add(label)
    known = {name: labels.pop() for name, labels in others.items() if len(labels) == 1} | known
    return tuple((name, label) for name, label in known.items() if name and label)


def _telling(one: tuple[str, str], other: tuple[str, str]) -> dict[str, str]:
    """Returns the word by which each of two options differs from the other, if one word it is."""
    pairs = list(zip(one[0].split(), other[0].split(), strict=False))
    differ = [pair for pair in pairs if pair[0] != pair[1]]
    if len(differ) != 1 or len(pairs) < 2 or len(one[0].split()) != len(other[0].split()):
        return {}
    return {differ[0][0]: one[1], differ[0][1]: other[1]}


def _spellings(name: str) -> Iterator[str]:
    """Yields other ways to write an option: dogs for dog, 5cm for 5 cm, north-east for northeast, blue and white."""
    measure = LEXICON.MEASURE.fullmatch(name)
    if measure:
        yield f"{measure[1]}{'' if measure[2] else ' '}{measure[3]}"
        return
    pair = LEXICON.PAIR.fullmatch(name)
    if pair:
        yield f"{pair[2]} and {pair[1]}"
        return
    compass = re.fullmatch(r"(north|south)[ -]?(east|west)(ern)?", name)
    if compass:
        yield from (f"{compass[1]}{blank}{compass[2]}{compass[3] or ''}" for blank in ("", " "))
    if not (name.isascii() and name.isalpha() and len(name) > 2):
        return
    yield from _ADJECTIVES.get(name, "").split()
    if name.endswith("ness") and len(name) > 6:
        stem = name.removesuffix("ness")
        yield stem[:-1] + "y" if stem.endswith("i") else stem
    elif not name.endswith("s"):
        yield name + "s"


def yes_no(text: str, yes: str, no: str) -> list[Mention]:
    """Returns every place where a folded text says yes or no, with the label that stands for it."""
    return [
        Mention(*match.span(), yes if match["yes"] or match["si"] else no, TEXT, *match.span())
        for match in LEXICON.YES_NO.finditer(text)
    ]
