"""Finds the mentions of labels and options in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scorer.reading import partial_match
from scorer.reading.label_forms import Forms
from scorer.reading.lexicon import BEFORE, Lexicon
from scorer.reading.normalize import fold
from scorer.reading.numbers import ORDINALS, WORD_PATTERN, WORDS

LEXICON = Lexicon("naming", NUMBER_WORD=WORD_PATTERN, ORDINAL="|".join(ORDINALS))

LABEL, TEXT = "label", "text"


class Mention(NamedTuple):
    """A label or an option's text in an answer.

    Attributes:
        start: Start of the name.
        end: End of the name.
        value: The label that it means.
        kind: LABEL or TEXT.
        first: Start of the name with its wrapping: brackets, quotes, "option".
        last: End of the name with its wrapping.
        plain: Whether it may be an ordinary word: no wrapping, and no cue around it that it is
            a label. Counts only after an announcement.
        lower: Whether it is a label in lower case.
    """

    start: int
    end: int
    value: str
    kind: str
    first: int
    last: int
    plain: bool = False
    lower: bool = False


def labels(text: str, forms: Forms, *, shy: bool) -> Iterator[Mention]:
    """Yields all mentions of labels.

    Args:
        text: The folded text.
        forms: The ways to write the labels.
        shy: Whether the labels also name other things, as digits do: they then count only
            after an announcement.
    """
    for match in forms.find(text):
        word, opening, closing, prefix, thing, soft = match.group("label", "open", "close", "prefix", "thing", "soft")
        (start, end), (begin, stop) = match.span("label"), match.span()
        value = forms.meanings[word]
        closed = closing.lstrip(".")
        wrapped = bool(opening and closed)
        soft = soft and not closing
        if text[begin - 2 : begin] in _NOUN_ENDS and f" {text[max(begin - _NOUN, 0) : begin - 1]}".lower().endswith(
            _NOT_CHOICES
        ):
            continue
        if shy and (text[begin - 1 : begin] in _SIGNS or text[stop : stop + 1] in _SUMS or _RANGE.match(text, stop)):
            continue
        if shy and not prefix and text[max(begin - 10, 0) : begin].lower().endswith((" other ", " remaining ")):
            continue
        # "A 2 by 3 grid", "one of the figures"
        says_how_many = shy and text[end : end + 3] in _BY_BEGINS and LEXICON.BY.match(text, end)
        if says_how_many and not (prefix or wrapped or " " in word):
            continue
        if not prefix and len(word) > 1 and LEXICON.PRONOUN_OR_ADVERB.match(word):
            one = word.lower() == "one"
            if LEXICON.DETERMINED.search(text, max(start - 12, 0), start) if one else text[end : end + 1] == ",":
                continue
        a_choice = " " in word and LEXICON.A_CHOICE.search(word)
        plain = True
        if wrapped or a_choice or (prefix and (not soft or (word == value and word != "I"))):
            plain = False
        elif soft and (shy or word != value or word in ("A", "I", "a", "i")):
            # A new sentence may follow, but not a noun, whose article or number the word would be.
            if not (shy and thing and thing.strip().isalpha()) and (
                word != "A" or not text[stop + 1 : stop + 2].isupper() or text[stop + 1 : stop + 3].isupper()
            ):
                continue
        else:
            plain = shy or word != value or word == "I"
        plain = plain and not (shy and thing and LEXICON.NUMBERED.search(thing))
        first = begin if opening or prefix or thing else start
        yield from _sharing(text, forms, begin, word)
        yield Mention(start, end, value, LABEL, first, stop if closed else end, plain, word.islower())


def _sharing(text: str, forms: Forms, begin: int, word: str) -> Iterator[Mention]:
    """Yields the ordinal that shares its noun with the next: "the second or the third option"."""
    shared = LEXICON.SHARING.search(text, max(begin - _SHARED, 0), begin) if " " in word else None
    value = forms.meanings.get(f"{shared['ordinal'].lower()} {word.rpartition(' ')[2].lower()}") if shared else None
    if shared and value:
        yield Mention(*shared.span("ordinal"), value, LABEL, *shared.span("ordinal"))


_SHARED = 30
_NOT_CHOICES = tuple(f" {noun}" for noun in LEXICON.entries("NOT_CHOICES"))
_NOUN, _NOUN_ENDS = max(map(len, _NOT_CHOICES)) + 1, frozenset(f"{noun[-1]} " for noun in _NOT_CHOICES)
"""Nouns before a letter that is not a choice; the length of the longest with its blanks; and their last letters."""
_RANGE = re.compile(r"-\d")
_SIGNS, _SUMS = tuple("-+*/"), tuple("+*/=")
_BY_BEGINS = (" by", " x ", "-by", " of")


@lru_cache(maxsize=4096)
def option_text(option: str, label: str) -> str:
    """Returns an option's text in the form that is searched: folded, without its label, article and full stop."""
    text = fold(option)
    match = LEXICON.LABELLED.match(text)
    if match and (match[1] or match[2]) == label.lower():
        text = text[match.end() :]
    text = text.rstrip(".!;, ").strip("\"'")
    if text.strip("()[]. ") == label.lower():
        return ""
    return without_article(text)


def without_article(text: str) -> str:
    """Returns a lower-case text without its first article."""
    match = LEXICON.ARTICLE.match(text)
    return text[match.end() :] if match and len(text) > match.end() else text


_IDIOMS = (
    ("right", LEXICON.IDIOM),
    ("left", LEXICON.GONE),
    ("above", LEXICON.MENTIONED_ABOVE),
    ("below", LEXICON.MENTIONED_ABOVE),
)
"""Directions, and the idioms in which they mean something else."""


_RANGE_AFTER, _RANGE_BEFORE = re.compile(r" ?- ?\d"), re.compile(r"\d - ?$")
"""Signs that make a number the end of a range, or part of a subtraction."""
_JOINED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_COMPOUNDS = frozenset(LEXICON.entries("COMPOUNDS"))
_HYPHEN = re.compile(r"(?<=[^\W_])-(?=[^\W\d_])")
_APART = ("", " ", "\n")
"""Text that separates words of any script."""


def _boundary(text: str, start: int, end: int, name: str) -> bool:
    if name[0].isdigit() and (_RANGE_AFTER.match(text, end) or _RANGE_BEFORE.search(text, max(start - 5, 0), start)):
        return False
    if text[start - 1 : start] in _APART and text[end : end + 1] in _APART:
        return True
    first, last = name[0], name[-1]
    if start and (
        _latin(first)
        and (_latin(text[start - 1]) or (text[start - 1] in "'" and start > 1 and _latin(text[start - 2])))
    ):
        return False
    if end < len(text) and _latin(last) and _latin(text[end]):
        return False
    if first.isdigit():
        before = text[max(start - 2, 0) : start]
        if before[-1:] in ("-", "/") or (before[-1:] in (".", ",") and before[:1].isdigit() and len(before) == 2):
            return False
    if last.isdigit():
        after = text[end : end + 2]
        if after[:1] in (".", ",", "/", ":") and after[1:].isdigit():
            return False
    return True


def _latin(char: str) -> bool:
    return char == "_" or (char.isalnum() and ord(char) < 0x2E80)


def texts(
    text: str, names: Sequence[tuple[str, str]], loosely: Sequence[partial_match.PartialName] = ()
) -> list[Mention]:
    """Returns all mentions of options by their text, the longest of those that overlap.

    Args:
        text: The folded text.
        names: Pairs of a lower-case name and its label.
        loosely: The names of several words that are also found in other wording.
    """
    raw = low = text.lower()
    if "-" in raw and any(" " in name for name, _ in names):
        low = _HYPHEN.sub(" ", raw)
    hits = list(partial_match.find(low, loosely))
    idioms = {
        low.find(word, match.start())
        for word, idiom in _IDIOMS
        if word in low and any(name == word for name, _ in names)
        for match in idiom.finditer(low)
    }
    for name, value in names:
        start = low.find(name)
        while start >= 0:
            end = start + len(name)
            prefixed = raw[start - 1 : start] == "-" and LEXICON.PREFIX.search(raw, max(start - 8, 0), start)
            if _boundary(low, start, end, name) and not prefixed and start not in idioms:
                hits.append((start, end, value))
                start = low.find(name, end)
            else:
                start = low.find(name, start + 1)
    if "-" in raw:
        hits = [hit for candidate in hits if (hit := _in_compound(raw, *candidate, names))]
    hits.sort(key=lambda hit: (hit[0], -hit[1]))
    kept: list[Mention] = []
    for start, end, value in hits:
        if kept and start < kept[-1].end:
            if end - start <= kept[-1].end - kept[-1].start:
                continue
            kept.pop()
        kept.append(Mention(start, end, value, TEXT, start, end))
    return kept


def _in_compound(
    text: str, start: int, end: int, value: str, names: Sequence[tuple[str, str]]
) -> tuple[int, int, str] | None:
    """Returns the span and value of a mention inside a compound; None if the compound is another thing.

    "Counter-clockwise" is the option "counterclockwise", a "horse-drawn carriage" is not a horse, and a "dark-green"
    thing is green.
    """
    joined = next((match for match in _JOINED.finditer(text) if match.start() < end and start < match.end()), None)
    if joined is None or (start <= joined.start() and joined.end() <= end):
        return start, end, value
    compound, rest = joined[0].replace("-", ""), text[end : joined.end()].removeprefix("-")
    named = dict(names)
    if compound in named:
        return *joined.span(), named[compound]
    return (start, end, value) if not rest or rest in _COMPOUNDS or rest in named else None


def is_number(text: str, mention: Mention) -> bool:
    """Returns true if a mention is a number, with or without a unit."""
    name = text[mention.start : mention.end].lower()
    return (name[0].isdigit() and "-" not in name) or name in WORDS


def _within(label: Mention, text: Mention) -> bool:
    """Returns true if a label is a word of an option's text: "vitamin C"."""
    return (
        label.kind == LABEL
        and text.start <= label.first
        and label.last <= text.end
        and text.end - text.start > label.end - label.start + 1
    )


_SIGNS_AFTER = tuple(").:]\"'")
"""Signs after a label that introduce its option's text beyond doubt."""


def without_own(text: str, by_label: list[Mention], by_text: Sequence[Mention]) -> list[Mention]:
    """Drops labels inside the text of an option that follows its label: 3 in "(1) 3", B in "A: A > B".

    Args:
        text: The folded text.
        by_label: All its labels, in order.
        by_text: All its options by their text, in order.
    """
    options = {mention.start: mention for mention in by_text} if len(by_label) > 1 else {}
    kept: list[Mention] = []
    end = 0
    for label in by_label:
        if label.start < end:
            continue
        kept.append(label)
        signs = options and text[label.end : label.end + 1] in _SIGNS_AFTER
        separator = LEXICON.BEHIND_LABEL.match(text, label.end) if signs else None
        option = options.get(separator.end()) if separator else None
        if option and option.value == label.value:
            end = option.end
    return kept


def without_overlap(ours: Sequence[Mention], others: Iterable[Mention]) -> list[Mention]:
    """Returns all mentions in order; of two that overlap, the one in `ours` wins.

    A label that is a word of an option's text is dropped.
    """
    taken: list[Mention] = []
    merged = sorted([(m.start, 0, m) for m in ours] + [(m.start, 1, m) for m in others], key=lambda item: item[:2])
    for _, rank, mention in merged:
        if taken and mention.start < taken[-1].end:
            last = taken[-1]
            won = rank == 0 and last.kind != mention.kind and not _within(mention, last)
            if not won and not (mention.kind == TEXT and _within(last, mention)):
                continue
            taken.pop()
        taken.append(mention)
    return taken


class Group:
    """Mentions in one phrase: one value, or several ("A and C").

    Attributes:
        mentions: The mentions.
        values: Their values, without repeats.
        first: Start of the phrase.
        last: End of the phrase.
    """

    __slots__ = ("first", "last", "mentions", "values")

    def __init__(self, mention: Mention) -> None:
        self.mentions = [mention]
        self.values = [mention.value]
        self.first = mention.first
        self.last = mention.last

    def add(self, mention: Mention) -> None:
        """Adds the next mention of the same phrase."""
        self.mentions.append(mention)
        if mention.value not in self.values:
            self.values.append(mention.value)
        self.last = mention.last

    @property
    def plain(self) -> bool:
        """True if all mentions are plain."""
        return all(mention.plain for mention in self.mentions)

    @property
    def span(self) -> tuple[int, int]:
        """Span of the first name."""
        return self.mentions[0].start, self.mentions[0].end

    @property
    def article(self) -> bool:
        """True for a plain "a" or "I", which may be an article whose noun was cut off, or the pronoun."""
        mention = self.mentions[0]
        return (
            mention.plain
            and mention.kind == LABEL
            and (mention.value == "I" or (mention.lower and mention.value in "aA"))
        )


def groups(text: str, mentions: Sequence[Mention], *, two: bool = False) -> list[Group]:
    """Groups the mentions of one phrase.

    With only `two` options, "not one, the other" is two phrases.
    """
    phrases: list[Group] = []
    for mention in mentions:
        if phrases and _joins(text, phrases[-1], mention, two):
            phrases[-1].add(mention)
        else:
            phrases.append(Group(mention))
    return phrases


def _joins(text: str, group: Group, mention: Mention, two: bool) -> bool:
    """Returns true if a mention belongs to the phrase of the group before it."""
    between = text[group.last : mention.first] if mention.first >= group.last else ""
    if len(between) >= 40 or "\n" in between:
        return False
    before = group.mentions[-1]
    label_then_text = before.kind == LABEL and mention.kind == TEXT
    if (
        len(group.values) > 1
        and mention.value in group.values
        and not (label_then_text and before.value == mention.value)
    ):
        return False
    sign = between.strip()
    if sign in (",", ", the", ", a", ", an") and BEFORE.NOT.search(text, max(group.first - 20, 0), group.first):
        # "Not A, D." replaces one with the other.
        corrects = len(group.values) == 1 and BEFORE.STOPS.match(text, mention.last)
        if corrects or (two and sign == ","):
            return False
    return bool((label_then_text and BEFORE.OWN_TEXT.fullmatch(between)) or BEFORE.JOIN.fullmatch(between))
