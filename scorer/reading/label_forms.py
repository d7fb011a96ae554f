"""How labels are written, and where a text writes one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from scorer.reading.lexicon import WORD, Lexicon
from scorer.reading.numbers import ORDINALS

LEXICON = Lexicon("labels")
_VERBS = "|".join(
    f"{first}(?:{'|'.join(word[1:] for word in words)})"
    for first, words in groupby(sorted(LEXICON.entries("AFTER_LABEL")), key=itemgetter(0))
)
"""What may follow a label that is no article, by first letters, so that few of them are tried."""
_ANNOUNCING = frozenset(("", *LEXICON.entries("ANNOUNCING")))
"""All words in ASCII by which a label is announced."""
_AFTER = frozenset(
    form
    for words in LEXICON.source("AFTER_LABEL").replace("[áa]", "a").split("|")
    for form in (words.rstrip("?"), words.rstrip("?")[:-1])
)
"""All that may follow a label as far as `_VERBS` goes, and more."""
_BLANKS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
_WORDS = {code: " " for code in _BLANKS if chr(code) not in ".#"}
_REACH = 80
"""Code points that what announces a label is long, at most, and that the label and what is looked at behind it are."""


class Forms:
    """Every way to write some labels.

    Attributes:
        meanings: The label each form stands for.
        pattern: Finds the forms in folded text.
    """

    def __init__(self, meanings: Mapping[str, str]) -> None:
        self.meanings = meanings
        self.pattern = _pattern(
            meanings, rf"(?P<prefix>(?i:{LEXICON.source('PREFIX')}))?(?P<thing>(?i:{LEXICON.source('THING')}))?"
        )
        self._unannounced = _pattern(meanings, "(?P<prefix>(?!))?(?P<thing>(?!))?")
        words = _words(meanings)
        self._worded = bool(words)
        # "optionB" is one word.
        firsts = "".join(sorted({name[0] for name in meanings if name.isascii()} | set("ocOC")))
        self._words = re.compile(rf" (?=[{re.escape(firsts)}])(?:({words})(?= )|(?i:option|choice)({words})(?= ))")
        self._anywhere = _anywhere(meanings)
        self._articles = {
            name for name, value in meanings.items() if len(name) == 1 and name.islower() and name != value
        }

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yields what `pattern.finditer` would, which is looked for only where a form stands."""
        done, tried, ascii_only = 0, 0, text.isascii()
        for place, itself in self._places(text):
            while done <= place:
                low = max(done, tried)
                match = self._match(text, place, low, itself) if ascii_only else self._search(text, place, done)
                if not match:
                    tried = place + 1
                    break
                yield match
                done = match.end()

    def _match(self, text: str, place: int, low: int, itself: bool) -> re.Match[str] | None:
        """Returns the first match that begins at `low` at least and at the place of a form at most.

        `itself` says whether that form may announce another: "the option B", "one 3".
        """
        bracket = place
        while bracket > max(low, place - 3) and text[bracket - 1] in "([\"'<":
            bracket -= 1
        announced = _announced(text, bracket, low)
        for start in reversed(announced):
            match = self.pattern.match(text, start)
            if match:
                return match
        pattern = self.pattern if itself or announced else self._unannounced
        for start in range(bracket, place + 1):
            match = pattern.match(text, start)
            if match:
                return match
        return None

    def _search(self, text: str, place: int, low: int) -> re.Match[str] | None:
        """As `_match`, in any script."""
        match = self.pattern.search(text, max(low, place - _REACH), place + _REACH)
        return match if match and match.start() <= place else None

    def _places(self, text: str) -> Iterator[tuple[int, bool]]:
        """Yields at least where every form stands that counts, in order, and whether it may announce another."""
        if not self._worded or not text.isascii():
            for match in self._anywhere.finditer(text):
                yield match.start(), True
            return
        words = f" {text.translate(_BLANKS)} "
        for match in self._words.finditer(words):
            start, end = match.span(match.lastindex or 1)
            # In lower case before a word it is an article or the like, whatever announces it.
            word = words[start:end]
            if word in self._articles and text[start : start + 1] == " ":
                noun = words[end + 1 : words.find(" ", end + 1)].lower()
                if noun.isalpha() and noun not in _AFTER and not noun.startswith("satisf"):
                    continue
            yield start - 1, word.lower() in _ANNOUNCING


def _announced(text: str, end: int, low: int) -> list[int]:
    """Returns where each of the words begins that may announce what stands at `end`, the last first."""
    starts: list[int] = []
    low = max(low, end - _REACH)
    before = text[low:end].lower().replace("\n", " ").rstrip()
    while before:
        word = before[before.rfind(" ") + 1 :]
        if word.isalnum() and word not in _ANNOUNCING:
            break
        plain = word.translate(_WORDS).rpartition(" ")[2]
        if plain.rstrip("#") not in _ANNOUNCING:
            plain = plain.rpartition(".")[2]
        if not plain or plain.rstrip("#") not in _ANNOUNCING:
            break
        starts.append(low + len(before) - len(plain))
        if plain != word:
            break
        before = before[: -len(word)].rstrip()
    return starts


def _words(meanings: Mapping[str, str]) -> str:
    """Returns a pattern of how the forms begin, as words between blanks; "" if some are no such words."""
    keys = {_key(name) for name in meanings if name.isascii()}
    if not all(word.isalnum() for key in keys for word in key.split(" ")):
        return ""
    singles = "".join(sorted(key for key in keys if len(key) == 1))
    several = sorted(key for key in keys if len(key) > 1 and " " not in key)
    ordinals = sorted({key[4:] for key in keys if key[:4].lower() == "the "}, reverse=True)
    several += [rf"(?:the|The|THE)(?= {_spelled(ordinals)} )"] if ordinals else []
    return "|".join([rf"[{singles}]", *several] if singles else several)


def _anywhere(meanings: Mapping[str, str]) -> re.Pattern[str]:
    """Returns a pattern that matches wherever a form stands, in any script."""
    begins: dict[str, set[str]] = {}
    for name in meanings:
        key = _key(name)
        begins.setdefault(key[0], set()).add(re.escape(key[1:]))
    firsts = "".join(map(re.escape, begins))
    keys = "|".join(rf"(?<={re.escape(first)})(?:{'|'.join(sorted(rests))})" for first, rests in begins.items())
    return re.compile(rf"[{firsts}](?:(?<![0-9A-Za-z].)|(?i:(?<=option.)|(?<=choice.)))(?:{keys})(?![0-9A-Za-z_])")


def _spelled(words: Sequence[str]) -> str:
    """Returns a pattern of any of some words, letter by letter: the first of them where one begins another."""
    first, last = min(words), max(words)
    shared = next(
        (place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first)
    )
    begins: dict[str, list[str]] = {}
    for word in words:
        begins.setdefault(word[shared : shared + 1], []).append(word[shared:])
    rests = "|".join(map(_spelled, begins.values())) if len(words) > 1 else ""
    return re.escape(first[:shared]) + (f"(?:{rests})" if rests else "")


def _key(name: str) -> str:
    """Returns how a form begins: its first word, two more with it where that is the article."""
    words = name.split(" ")
    return " ".join(words[: 3 if words[0].lower() == "the" else 1])


def _pattern(meanings: Mapping[str, str], announced: str) -> re.Pattern[str]:
    single = "".join(re.escape(name) for name in sorted(meanings) if len(name) == 1 and name not in "Nn")
    after_slash = rf"(?<=(?<![{WORD}])[{single}]/)" if single else "(?!)"
    one = _spelled(sorted(meanings, key=lambda form: (-len(form), form)))
    return re.compile(LEXICON.source("FORM", ANNOUNCED=announced, AFTER_SLASH=after_slash, ONE=one, VERBS=_VERBS))


@lru_cache(maxsize=256)
def forms_of(names: tuple[str, ...], values: tuple[str, ...] = ()) -> Forms:
    """Returns the forms of labels, in any case and by place, each standing for itself or for the value at its place."""
    pairs = list(zip(names, values or names, strict=True))
    by_place = {
        f"{article} {ordinal} {noun}": value
        for ordinal, (_, value) in zip(ORDINALS, pairs, strict=False)
        for article in ("the", "The")
        for noun in ("option", "choice")
    } | {f"{article} last {noun}": pairs[-1][1] for article in ("the", "The") for noun in ("option", "choice")}
    return Forms(
        by_place | {form: value for name, value in reversed(pairs) for form in (name.lower(), name.upper(), name)}
    )
