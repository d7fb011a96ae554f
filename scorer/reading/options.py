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
    whole = tuple((option_text(option, label), label) for option, label in zip(options, labels, strict=False))
    whole = tuple((name, label) for name, label in whole if name)
    by_name = dict(whole)
    alone = {name for name, _ in whole if name in _ACROSS | _UPRIGHT}
    return Options(
        whole,
        _names(whole),
        partial_match.loose_names(whole),
        frozenset(
            label
            for label, option in zip(labels, options, strict=False)
            if LEXICON.THING.fullmatch(option.strip(" .").lower())
        )
        | {label for _, label in _rooms(whole)},
        _all_numbers(options),
        (by_name["yes"], by_name["no"]) if set(by_name) == {"yes", "no"} and len(options) == 2 else None,
        len(options) == 2 and set(by_name) in _OPPOSITES,
        _amounts(whole),
        bool(alone & _ACROSS and alone & _UPRIGHT),
        _sides(whole),
    )


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


def _names(whole: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns every text that names one option, with the label meant."""
    known: dict[str, str] = {}
    for name, label in whole + _places(whole) + _rooms(whole):
        known[name] = label if name not in known else ""
    # "four" for 4; "one" is mostly a pronoun.
    for name, label in list(known.items()):
        if name in _NUMBERS and _NUMBERS[name] not in known:
            known[_NUMBERS[name]] = label
    if len(known) == 2:
        known |= _telling(*known.items())
    others: dict[str, set[str]] = {}
    for name, label in known.items():
        for other in _spellings(name):
            others.setdefault(other, set()).add(label)
    known = {name: labels.pop() for name, labels in others.items() if len(labels) == 1} | known
    return tuple((name, label) for name, label in known.items() if name and label)


def _places(whole: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns the first names of options that are places and what they lie in: Paris for "Paris, France"."""
    parts = [LEXICON.PLACE.fullmatch(name) for name, _ in whole]
    matches = [part for part in parts if part]
    firsts = {part[1] for part in matches}
    if len(matches) < len(whole) or len(firsts) < len(whole) or firsts & {part[2] for part in matches}:
        return ()
    return tuple((part[1], label) for part, (_, label) in zip(matches, whole, strict=True))


def _rooms(whole: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns the places of options that all name one behind the same preposition: kitchen for "In the kitchen"."""
    parts = [LEXICON.IN.fullmatch(name) for name, _ in whole]
    matches = [part for part in parts if part]
    if len(matches) < len(whole) or len({part[1] for part in matches}) != 1:
        return ()
    return tuple((part[2], label) for part, (_, label) in zip(matches, whole, strict=True))


def _amounts(whole: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns the numbers of options that are numbers with the same unit: 10 for "10 years"."""
    parts = [LEXICON.AMOUNT.fullmatch(name) for name, _ in whole]
    matches = [part for part in parts if part]
    units = {(part[1], part[3]) for part in matches}
    if len(matches) < len(whole) or len(units) != 1 or units == {("", "")}:
        return ()
    return tuple((part[2], label) for part, (_, label) in zip(matches, whole, strict=True))


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


def _all_numbers(options: tuple[str, ...]) -> dict[str, int]:
    values = [option.strip(" .") for option in options]
    numbers = {str(int(value)): place for place, value in enumerate(values) if value.isascii() and value.isdigit()}
    return numbers if len(numbers) == len(options) else {}


def yes_no(text: str, yes: str, no: str) -> list[Mention]:
    """Returns every place where a folded text says yes or no, with the label that stands for it."""
    found = []
    for match in LEXICON.YES_NO.finditer(text):
        value = yes if match["yes"] or match["si"] else no
        found.append(Mention(match.start(), match.end(), value, TEXT, match.start(), match.end()))
    return found
