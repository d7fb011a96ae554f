"""What the options of a question are called, and where an answer names them by their words."""

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
_SAME = {words: others.split(", ") for words, others in LEXICON.mapping("SAME").items()}
_OPPOSITES = ({"true", "false"}, {"correct", "incorrect"}, {"right", "wrong"})


@dataclass(frozen=True)
class Options:
    """The options of one question.

    Attributes:
        whole: Each option's text as it is searched, with its label; none that names nothing.
        names: Every text that names one option, with the label meant.
        loose: The options that are found by their telling words.
        things: Labels of the options that are a noun with its article: "A dog".
        yes_no: The labels of the two options that are or begin with "yes" and "no".
        opposites: Whether there are two options, of which one holds where the other does not.
        corners: Whether there are options in both directions, so that "upper left" is neither of them.
        sides: Of two options that say on which side of another a thing is, the thing and the other; None of any else.
    """

    whole: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str], ...]
    loose: tuple[partial_match.PartialName, ...]
    things: frozenset[str]
    yes_no: tuple[str, str] | None
    opposites: bool
    corners: bool
    sides: tuple[str, str] | None

    @cached_property
    def form(self) -> Form:
        """What they share, and what differs in them."""
        return form_of(self.whole)

    @cached_property
    def colored(self) -> bool:
        """Whether an option names a color."""
        return any(not _COLORS.isdisjoint(name.split()) for name, _ in self.names)

    def find(self, folded: str) -> list[Mention]:
        """Returns every mention of an option by its words in a folded text."""
        found = texts(folded, self.names, self.loose) if self.names else []
        found = [mention for mention in found if not self._means_else(folded, mention)]
        return without_overlap(found, yes_no(folded, *self.yes_no)) if self.yes_no else found

    def find_parts(self, folded: str) -> list[Mention]:
        """Returns every mention of an option by what differs in it: "10" for "10 years" where all are years.

        "The tree is behind the car" is none of "The car is behind the tree": what they share is in another order.
        """
        form = self.form
        low = folded.lower() if form.parts else ""
        places = [place for word in form.shared if (place := low.find(word)) >= 0]
        return [
            mention
            for mention in (texts(folded, form.parts) if form.parts and places == sorted(places) else ())
            if not self._means_else(folded, mention)
            and not (folded[mention.start].isdigit() and LEXICON.OTHER_UNIT.match(folded, mention.end))
        ]

    def _means_else(self, text: str, mention: Mention) -> bool:
        """Whether the words are part of the name of another thing: "dog stand", "hot dog", "upper left"."""
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
        """Whether the words are part of several colors in one breath that are not all options: "brown and white"."""
        low = max(mention.start - _NEAR, 0)
        start, end = mention.start - low, mention.end - low
        own = [name for name, _ in self.names]
        return any(
            found.start() < end
            and start < found.end()
            and not (start <= found.start() and found.end() <= end)
            and not all(color in own for color in LEXICON.COLORS.findall(found[0]))
            for found in LEXICON.COLOR_LIST.finditer(text[low : mention.end + _NEAR].lower())
        )


NO_OPTIONS = Options((), (), (), frozenset(), None, False, False, None)


@lru_cache(maxsize=4096)
def options_of(labels: tuple[str, ...], options: tuple[str, ...]) -> Options:
    """Returns what the options with these labels are called."""
    if not options:
        return NO_OPTIONS
    named = list(zip(labels, options, strict=False))
    whole = tuple((name, label) for label, option in named if (name := option_text(option, label)))
    by_name = dict(whole)
    # Paris for "Paris, France"; kitchen where all options are of the form "In the kitchen".
    places, rooms = (_parts(pattern, whole) for pattern in (LEXICON.PLACE, LEXICON.IN))
    firsts = {first for (first, *_), _ in places}
    if len(firsts) < len(places) or firsts & {around for (_, around, *_), _ in places}:
        places = []
    if len({preposition for (preposition, *_), _ in rooms}) != 1:
        rooms = []
    says = {name.partition(",")[0]: (name.partition(", ")[2], label) for name, label in whole}
    yes_no = len(whole) == 2 and says.keys() == {"yes", "no"}
    return Options(
        whole,
        _names(
            (tuple(says.values()) + tuple(pair for pair in whole if pair[0] not in says) if yes_no else whole)
            + tuple((p[0], label) for p, label in places)
            + tuple((p[1], label) for p, label in rooms)
        ),
        partial_match.partial_names(whole),
        frozenset(label for label, option in named if LEXICON.THING.fullmatch(option.strip(" .").lower()))
        | {label for _, label in rooms},
        (says["yes"][1], says["no"][1]) if yes_no else None,
        len(options) == 2 and set(by_name) in _OPPOSITES,
        bool(by_name.keys() & _ACROSS and by_name.keys() & _UPRIGHT),
        _sides(whole),
    )


def _parts(pattern: re.Pattern[str], whole: tuple[tuple[str, str], ...]) -> list[tuple[tuple[str, ...], str]]:
    """Returns the groups of a pattern in every option, with its label; nothing if an option does not match."""
    parts = [(match.groups(), label) for name, label in whole if (match := pattern.fullmatch(name))]
    return parts if len(parts) == len(whole) else []


def _sides(whole: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    """Returns the thing and the other where two options say on which side of the other the thing is."""
    if len(whole) != 2 or not _telling(whole).keys() & (_ACROSS | _UPRIGHT):
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
        known |= _telling(tuple(known.items()))
    others: dict[str, set[str]] = {}
    for name, label in known.items():
        for other in _spellings(name):
            others.setdefault(other, set()).add(label)
    known = {name: labels.pop() for name, labels in others.items() if len(labels) == 1} | known
    return tuple((name, label) for name, label in known.items() if name and label)


def _telling(whole: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Returns the words by which options of one form differ: "brown" of "The color of the dog is brown"."""
    words = [name.split() for name, _ in whole]
    first = _alike(words)
    rests = [part[first:] for part in words]
    last = _alike([rest[::-1] for rest in rests])
    parts = [" ".join(rest[: len(rest) - last]) for rest in rests]
    if not (first or last) or not all(parts):
        return {}
    if len(whole) > 2 and not all((len(part) > 1 or part.isdigit()) and partial_match.telling(part) for part in parts):
        return {}
    return {part: label for part, (_, label) in zip(map(without_article, parts), whole, strict=True)}


class Form(NamedTuple):
    """What options of one form share, and what differs in them.

    Attributes:
        parts: What differs, with the labels meant: "10" of "10 years", "red" of "It is red"; none of other options.
        shared: The telling words that they share, in their order.
        numbers: The labels by their numbers; {} if not each option tells another whole number.
    """

    parts: tuple[tuple[str, str], ...]
    shared: tuple[str, ...]
    numbers: dict[str, str]


def form_of(whole: tuple[tuple[str, str], ...]) -> Form:
    """Returns the form of some options (`Options.whole`)."""
    parts = _differing(whole)
    numbers = {str(value_of(part)): label for part, label in (parts or whole)}
    others = [set(partial_match.telling(name)) for name, _ in whole[1:]] if parts else []
    shared = partial_match.telling(whole[0][0]) if parts else []
    return Form(
        parts,
        tuple(word for word in shared if all(word in other for other in others)),
        numbers if len(numbers) == len(whole) and "None" not in numbers else {},
    )


def _alike(rows: Sequence[Sequence[str]]) -> int:
    """Returns how many words all of some rows begin with."""
    return sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*rows, strict=False)))


def _differing(whole: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns what differs in options of one form, with the labels meant: "10" of "10 years" and of "$10"."""
    amounts = _parts(LEXICON.AMOUNT, whole)
    units = {(before, behind) for (before, _, behind), _ in amounts}
    if not amounts:
        return tuple(_telling(whole).items())
    return tuple((parts[1], label) for parts, label in amounts) if len(units) == 1 and units != {("", "")} else ()


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
    """Yields other words for the same: "under" for "underneath", "only figure 2", a list for a sequence of arrows."""
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
    for words, others in _SAME.items():
        for other in others if " " in name else ():
            reworded = re.sub(rf"\b{re.escape(words)}\b", other, name)
            if reworded != name:
                yield reworded


def yes_no(text: str, yes: str, no: str) -> list[Mention]:
    """Returns every place where a folded text says yes or no, with the label that stands for it."""
    return [
        Mention(*match.span(), yes if match["yes"] or match["si"] else no, TEXT, *match.span())
        for match in LEXICON.YES_NO.finditer(text)
    ]


def yes_no_abroad(options: Sequence[str]) -> tuple[str, str] | None:
    """Returns which of two options is yes and which is no in another language than English; None if they are not."""
    yes = [option for option in options if LEXICON.YES_ABROAD.fullmatch(option.strip(" ."))]
    no = [option for option in options if LEXICON.NO_ABROAD.fullmatch(option.strip(" ."))]
    return (yes[0], no[0]) if len(yes) == len(no) == 1 else None
