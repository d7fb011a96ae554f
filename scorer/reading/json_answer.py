"""Finds the answer in JSON: the value of a key such as "answer", or the item with a true verdict.

Patterns replace a parser, because answers often only resemble JSON: they are cut, hold LaTeX in their strings, or use
single quotes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from scorer.reading.lexicon import Lexicon

LEXICON = Lexicon("json")

Span = tuple[int, int]

_PAIR = re.compile(
    r"""(?:"(?P<key>[^"\n{}:,]{1,60})"|'(?P<other>[^'\n{}:,]{1,60})')\s{0,9}:\s{0,9}"""
    r"""(?:"(?P<text>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<plain>[\w.+-]+)(?=\s*[,}\]\n])|(?=[{\[]))""",
    re.DOTALL,
)
_BEGINS = re.compile(r"[\s*]*(?:```\w*\s*)?(?:<\w+>\s*)?(?=[{\[])")
_OPENS = re.compile(r"[{\[\s]*\"[^\"\n{}:,]{1,60}\"\s*:")
_ENDS = re.compile(r"[\s*]*(?:</\w+>)?\s*(?:```)?[\s*]*(?:<\|[\w|]*>)?\s*")
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|[^\W\d_]+")
_EXPLAINED = re.compile(r"[:;,(-]|\.\s|\s[-–—]")
_BRACKET = re.compile(r"[{\[}\]]")
_NOTHING = frozenset(("", "null", "None", "none"))


class _Pair(NamedTuple):
    """A key and its value; for an object or a list the value is "", and its span is the inside of the brackets.

    Attributes:
        inside: Start of the innermost object or list that holds the pair.
        depth: Number of objects and lists that hold the pair.
        key: The key.
        name: Span of the key.
        value: The value.
        span: Span of the value.
    """

    inside: int
    depth: int
    key: str
    name: Span
    value: str
    span: Span

    def called(self, name: str) -> bool:
        """Returns true if a word of the key is in a list of the lexicon."""
        return any(getattr(LEXICON, name).fullmatch(word) for word in _WORD.findall(self.key))

    @property
    def answers(self) -> bool:
        """True if the key is a word for the answer."""
        if self.called("OTHER_KEY"):
            return False
        return self.called("ANSWER_KEY") or (self.called("VERDICT_KEY") and not self.boolean)

    @property
    def judges(self) -> bool:
        """True if the key holds a verdict on its object."""
        return self.called("VERDICT_KEY") and not self.called("ANSWER_KEY")

    @property
    def true(self) -> bool:
        """True if the value is a word for true."""
        return bool(LEXICON.TRUE.fullmatch(_unexplained(self.value)))

    @property
    def boolean(self) -> bool:
        """True if the value is a word for true or false."""
        return self.true or bool(LEXICON.FALSE.fullmatch(_unexplained(self.value)))


def _unexplained(value: str) -> str:
    """Returns a value without its explanation: "wrong" of "wrong - no shadow"."""
    return _EXPLAINED.split(value)[0].strip(" .!").lower()


def answers(text: str) -> list[Span] | None:
    """Returns the spans of the answers in a JSON text; None if it is not one, and is read like any other text."""
    begins = _BEGINS.match(text)
    pairs, end = _pairs(text)
    if not pairs:
        return [] if begins and _OPENS.match(text, begins.end()) else None
    if end and not _ENDS.fullmatch(text, end):
        return None
    named, listed = _named(pairs)
    if named:
        answer = named[-1]
        inner = [pair for pair in pairs if pair.inside == answer.span[0] - 1 and not answer.value]
        within, _ = _named(inner)
        judged = _judged(inner)
        return [within[-1].span] if within else [answer.span] if judged is None else judged
    judged = _judged(pairs)
    if judged is not None or not begins:
        return judged
    values = [pair.span for pair in _submitted(pairs) or pairs if pair.value and not pair.called("OTHER_KEY")]
    return values if len(values) == 1 and not listed and end else []


def _named(pairs: Sequence[_Pair]) -> tuple[list[_Pair], bool]:
    """Returns the outermost pairs whose key is a word for the answer, and whether any of them is left out.

    A key that several items of a list have with different values is left out: {"option": "A", "correct": false}.
    """
    denied = {pair.inside for pair in pairs if pair.judges and pair.boolean and not pair.true}
    called = [] if _submitted(pairs) else [pair.depth for pair in pairs if LEXICON.CALL_KEY.fullmatch(pair.key)]
    # Arguments of a tool call, or detections, are not an answer; the object around them may hold one.
    named = [
        pair
        for pair in pairs
        if pair.answers and not (called and pair.depth >= min(called) and "answer" not in pair.key.lower())
    ]
    values = defaultdict(set)
    for pair in named:
        values[pair.key].add(pair.value or pair.span)
    single = [pair for pair in named if len(values[pair.key]) == 1 and pair.inside not in denied]
    top = min((pair.depth for pair in single), default=0)
    return [pair for pair in single if pair.depth == top], len(single) < len(named)


def _submitted(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Returns the arguments of a tool that submits the answer; none of other tools."""
    if not any(LEXICON.TOOL_KEY.fullmatch(pair.key) and LEXICON.SUBMITS.search(pair.value) for pair in pairs):
        return []
    calls = {pair.span[0] - 1 for pair in pairs if LEXICON.CALL_KEY.fullmatch(pair.key) and not pair.value}
    return [pair for pair in pairs if pair.inside in calls]


def _judged(pairs: Sequence[_Pair]) -> list[Span] | None:
    """Returns the spans of items with the verdict true, by a key of the item or as keys; None without verdicts."""
    objects: dict[int, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.value:
            objects[pair.inside].append(pair)
    names = {pair.span[0] - 1: pair.name for pair in pairs if not pair.value}
    true: list[Span] = []
    seen = False
    for inside, members in objects.items():
        if len(members) > 1 and all(pair.boolean for pair in members):
            return [pair.name for pair in members if pair.true]
        verdicts = [pair for pair in members if pair.judges and pair.boolean]
        label = names.get(inside) or next((pair.span for pair in members if pair not in verdicts), None)
        if verdicts and label:
            seen = True
            true += [label] if verdicts[-1].true else []
    return true if seen else None


def _pairs(text: str) -> tuple[list[_Pair], int]:
    """Returns all keys with their values, and the end of the last object; 0 if it is not closed."""
    matches = list(_PAIR.finditer(text))
    pairs: list[_Pair] = []
    inside: list[int] = []
    closed: dict[int, int] = {}
    done = end = 0
    for match in (*matches, None) if matches else ():
        stop = match.start() if match else len(text)
        for bracket in _BRACKET.finditer(text, done, stop):
            if bracket[0] in "{[":
                inside.append(bracket.start())
            elif inside:
                closed[inside.pop()] = bracket.start()
                end = bracket.end()
        done = match.end() if match else stop
        if match and inside and not _NOTHING & set(match.group("text", "single", "plain")):
            name = match.span("key" if match["key"] is not None else "other")
            kind = next((kind for kind in ("text", "single", "plain") if match[kind] is not None), "")
            span = match.span(kind) if kind else (done + 1, done + 1)
            pairs.append(_Pair(inside[-1], len(inside), text[slice(*name)], name, match[kind] if kind else "", span))
    pairs = [
        pair if pair.value else pair._replace(span=(pair.span[0], closed.get(pair.span[0] - 1, pair.span[1])))
        for pair in pairs
    ]
    return pairs, 0 if inside else end
