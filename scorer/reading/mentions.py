"""Finds where a text names a label or an option's text."""

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
    """A label or an option's text, named somewhere.

    Attributes:
        start: Where the name begins.
        end: Where it ends.
        value: The label meant.
        kind: LABEL or TEXT.
        first: Where its wrapping begins: brackets, quotes, "option".
        last: Where its wrapping ends.
        plain: Whether it could as well be an ordinary word: no wrapping, and nothing around
            it says that a label is meant. Counts only where an answer is announced.
        lower: Whether it is a label written in lower case.
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
    """Yields every mention of a label.

    Args:
        text: The folded text.
        forms: How the labels may be written.
        shy: Whether all of them are names of other things, too, as digits are: then each
            counts only where it is announced.
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
        said = " " in word and LEXICON.A_CHOICE.search(word)
        plain = True
        if wrapped or said or (prefix and (not soft or (word == value and word != "I"))):
            plain = False
        elif soft and (shy or word != value or word in ("A", "I", "a", "i")):
            # A new sentence may follow, but no noun of which the word is the article or the number.
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
"""Nouns before a letter that names no choice, the longest of them with its blanks, and how they end."""
_RANGE = re.compile(r"-\d")
_SIGNS, _SUMS = tuple("-+*/"), tuple("+*/=")
_BY_BEGINS = (" by", " x ", "-by", " of")


@lru_cache(maxsize=4096)
def option_text(option: str, label: str) -> str:
    """Returns an option's text as it is searched: folded, without its label, article and full stop."""
    text = fold(option)
    match = LEXICON.LABELLED.match(text)
    if match and (match[1] or match[2]) == label.lower():
        text = text[match.end() :]
    text = text.rstrip(".!;, ").strip("\"'")
    if text.strip("()[]. ") == label.lower():
        return ""
    return without_article(text)


def without_article(text: str) -> str:
    """Returns a lower-case text without the article that it begins with."""
    match = LEXICON.ARTICLE.match(text)
    return text[match.end() :] if match and len(text) > match.end() else text


_IDIOMS = (
    ("right", LEXICON.IDIOM),
    ("left", LEXICON.GONE),
    ("above", LEXICON.MENTIONED_ABOVE),
    ("below", LEXICON.MENTIONED_ABOVE),
)
"""Where these words are no directions."""


_RANGE_BEHIND, _RANGE_BEFORE = re.compile(r" ?- ?\d"), re.compile(r"\d - ?$")
"""Makes a number the end of a range, or part of a subtraction."""
_JOINED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_COMPOUNDS = frozenset(LEXICON.entries("COMPOUNDS"))
_HYPHEN = re.compile(r"(?<=[^\W_])-(?=[^\W\d_])")
_APART = ("", " ", "\n")
"""What parts words, whatever they are."""


def _boundary(text: str, start: int, end: int, name: str) -> bool:
    if name[0].isdigit() and (_RANGE_BEHIND.match(text, end) or _RANGE_BEFORE.search(text, max(start - 5, 0), start)):
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
    """Returns every mention of a text, the longest where several overlap.

    Args:
        text: The folded text.
        names: Pairs of a lower-case name and the label it stands for.
        loosely: Those of several words that are found in other wording, too.
    """
    raw = low = text.lower()
    if "-" in raw and any(" " in name for name, _ in names):
        low = _HYPHEN.sub(" ", raw)
    found = list(partial_match.find(low, loosely))
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
                found.append((start, end, value))
                start = low.find(name, end)
            else:
                start = low.find(name, start + 1)
    if "-" in raw:
        found = [hit for each in found if (hit := _in_compound(raw, *each, names))]
    found.sort(key=lambda hit: (hit[0], -hit[1]))
    kept: list[Mention] = []
    for start, end, value in found:
        if kept and start < kept[-1].end:
            if end - start <= kept[-1].end - kept[-1].start:
                continue
            kept.pop()
        kept.append(Mention(start, end, value, TEXT, start, end))
    return kept


def _in_compound(
    text: str, start: int, end: int, value: str, names: Sequence[tuple[str, str]]
) -> tuple[int, int, str] | None:
    """Returns a mention as it is within a compound; None where the compound is another thing.

    "Counter-clockwise" is the option "counterclockwise", a "horse-drawn carriage" is no horse, and what is "dark-green"
    is green.
    """
    joined = next((each for each in _JOINED.finditer(text) if each.start() < end and start < each.end()), None)
    if joined is None or (start <= joined.start() and joined.end() <= end):
        return start, end, value
    whole, behind = joined[0].replace("-", ""), text[end : joined.end()].removeprefix("-")
    named = dict(names)
    if whole in named:
        return *joined.span(), named[whole]
    return (start, end, value) if not behind or behind in _COMPOUNDS or behind in named else None


def is_number(text: str, mention: Mention) -> bool:
    """Whether a text that is named is a number, with a unit or without."""
    name = text[mention.start : mention.end].lower()
    return (name[0].isdigit() and "-" not in name) or name in WORDS


def _within(label: Mention, text: Mention) -> bool:
    """Whether a label is a word of an option's text: "vitamin C"."""
    return (
        label.kind == LABEL
        and text.start <= label.first
        and label.last <= text.end
        and text.end - text.start > label.end - label.start + 1
    )


_SIGNS_BEHIND = tuple(").:]\"'")
"""Between a label and its option's words, where nothing else can be meant."""


def without_own(text: str, by_label: list[Mention], own: Sequence[Mention]) -> list[Mention]:
    """Returns the labels without those in the words of an option that follow its label: 3 in "(1) 3", B in "A: A > B".

    Args:
        text: The folded text.
        by_label: All labels that it names, in order.
        own: All options that it names by their words, in order.
    """
    words = {mention.start: mention for mention in own} if len(by_label) > 1 else {}
    kept: list[Mention] = []
    end = 0
    for label in by_label:
        if label.start < end:
            continue
        kept.append(label)
        signs = words and text[label.end : label.end + 1] in _SIGNS_BEHIND
        behind = LEXICON.BEHIND_LABEL.match(text, label.end) if signs else None
        said = words.get(behind.end()) if behind else None
        if said and said.value == label.value:
            end = said.end
    return kept


def without_overlap(ours: Sequence[Mention], others: Iterable[Mention]) -> list[Mention]:
    """Returns all mentions in their order, `ours` before `others` where both cover a place.

    A label that is a word of an option's text is no label.
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
    """Things named in one breath: one value, or several ("A and C").

    Attributes:
        mentions: Each name.
        values: What they stand for, each once.
        first: Where it begins.
        last: Where it ends.
    """

    __slots__ = ("first", "last", "mentions", "values")

    def __init__(self, mention: Mention) -> None:
        self.mentions = [mention]
        self.values = [mention.value]
        self.first = mention.first
        self.last = mention.last

    def add(self, mention: Mention) -> None:
        """Adds what is named next in the same breath."""
        self.mentions.append(mention)
        if mention.value not in self.values:
            self.values.append(mention.value)
        self.last = mention.last

    @property
    def plain(self) -> bool:
        """Whether all its names are plain."""
        return all(mention.plain for mention in self.mentions)

    @property
    def span(self) -> tuple[int, int]:
        """Where its first name stands."""
        return self.mentions[0].start, self.mentions[0].end

    @property
    def article(self) -> bool:
        """Whether it is a lower-case "a" and may be the article of something cut off."""
        mention = self.mentions[0]
        return (
            mention.plain
            and mention.kind == LABEL
            and (mention.value == "I" or (mention.lower and mention.value in "aA"))
        )


def groups(text: str, mentions: Sequence[Mention], *, two: bool = False) -> list[Group]:
    """Returns the mentions, those that are named in one breath together.

    With only `two` things to name, "not one, the other" is two breaths.
    """
    found: list[Group] = []
    for mention in mentions:
        if found and _joins(text, found[-1], mention, two):
            found[-1].add(mention)
        else:
            found.append(Group(mention))
    return found


def _joins(text: str, group: Group, mention: Mention, two: bool) -> bool:
    """Whether something is named in one breath with what is named before it."""
    between = text[group.last : mention.first] if mention.first >= group.last else ""
    if len(between) >= 40 or "\n" in between:
        return False
    before = group.mentions[-1]
    own = before.kind == LABEL and mention.kind == TEXT
    if len(group.values) > 1 and mention.value in group.values and not (own and before.value == mention.value):
        return False
    sign = between.strip()
    if sign in (",", ", the", ", a", ", an") and BEFORE.NOT.search(text, max(group.first - 20, 0), group.first):
        # "Not A, D." puts one in the place of the other.
        corrects = len(group.values) == 1 and BEFORE.STOPS.match(text, mention.last)
        if corrects or (two and sign == ","):
            return False
    return bool((own and BEFORE.OWN_TEXT.fullmatch(between)) or BEFORE.JOIN.fullmatch(between))
