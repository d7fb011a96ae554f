"""The 19 rules of VOILA and the space of questions that each spans.

A question is three images and the properties of a fourth. Each image shows a number of subjects
in an action; each of the three properties follows one rule over the four images:

    S   stable       (x, x, y, y), x != y
    C   change       (x, y, x, y), x != y
    A   arithmetic   (a, b, c, d), b - a = d - c != 0, all in 1..4; numbers only
    A'  as A, without a = c, which would make image 3 repeat image 1 under rule 19
    D   distraction  (a, b, c), all different, and the answer is "any"; for numbers, a decrease
                     that would take image 3 below one

Values are indices into NUMBERS, SUBJECTS and ACTIONS; ANY stands for the answer "any". Every
visible question (what a model is shown: three images and the rule's answer) has one index within
its rule and one number among all, and both ways between them take constant time.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations, product
from typing import NamedTuple

NUMBERS = ("one", "two", "three", "four")
SUBJECTS = (
    ("female children", "female child"),
    ("men", "man"),
    ("women", "woman"),
    ("senior men", "senior man"),
    ("senior women", "senior woman"),
    ("cats", "cat"),
    ("dogs", "dog"),
    ("foxes", "fox"),
    ("hamsters", "hamster"),
    ("monkeys", "monkey"),
    ("wolves", "wolf"),
    ("male children", "male child"),
    ("bears", "bear"),
    ("rabbits", "rabbit"),
)
"""Plural and singular."""
ACTIONS = (
    "playing soccer",
    "driving a car",
    "ice-skating",
    "walking",
    "swimming",
    "jumping",
    "typing",
    "writing",
    "digging a hole",
    "carrying something",
    "reading",
    "running",
    "eating food",
)
ANY = -1

Quad = tuple[int, int, int, int]
"""One property over the four images."""


class Spec(NamedTuple):
    """Content of an image; ANY occurs in answers only."""

    number: int
    subject: int
    action: int


def _stable(values: int) -> tuple[Quad, ...]:
    return tuple((x, x, y, y) for x, y in permutations(range(values), 2))


def _change(values: int) -> tuple[Quad, ...]:
    return tuple((x, y, x, y) for x, y in permutations(range(values), 2))


def _distraction(values: int) -> tuple[Quad, ...]:
    return tuple((a, b, c, ANY) for a, b, c in permutations(range(values), 3))


_STEPS = [(a, b, c, c + b - a) for a, b, c in product(range(4), repeat=3) if a != b and 0 <= c + b - a < 4]

QUADS: dict[str, dict[str, tuple[Quad, ...]]] = {
    "number": {
        "S": _stable(4),
        "A": tuple(_STEPS),
        "A'": tuple(quad for quad in _STEPS if quad[0] != quad[2]),
        "D": tuple(quad for quad in _distraction(4) if quad[2] + quad[1] - quad[0] < 0),
    },
    "subject": {"S": _stable(14), "C": _change(14), "D": _distraction(14)},
    "action": {"S": _stable(13), "C": _change(13), "D": _distraction(13)},
}
"""Property -> kind -> every quadruple, in a fixed order."""


def hidden_values(prop: str, shown: Sequence[int]) -> Sequence[int]:
    """Returns the values that a fourth image may take where the answer is "any".

    The one number not yet shown (never one), or any subject or action, shown ones included.
    """
    if prop == "number":
        return [value for value in range(4) if value not in shown]
    return range(len(SUBJECTS) if prop == "subject" else len(ACTIONS))


class Question(NamedTuple):
    """One visible question.

    Attributes:
        rule: The rule's id.
        images: Contents of images 1, 2 and 3.
        answer: Content of image 4; ANY where any value is right.
    """

    rule: int
    images: tuple[Spec, Spec, Spec]
    answer: Spec


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: 1 to 19.
        kinds: Property -> kind, in the order of `QUADS`.
    """

    id: int
    kinds: Mapping[str, str]

    @property
    def distractions(self) -> int:
        """Number of properties whose answer is "any"."""
        return sum(kind == "D" for kind in self.kinds.values())

    @property
    def space(self) -> int:
        """Number of visible questions."""
        return math.prod(map(len, self._quads()))

    def question(self, index: int) -> Question:
        """Returns visible question `index` of 0..space-1.

        Raises:
            IndexError: There is none.
        """
        if not 0 <= index < self.space:
            raise IndexError(f"rule {self.id} has {self.space:,} questions; there is none at {index:,}")
        numbers, subjects, actions = self._quads()
        rest, action = divmod(index, len(actions))
        number, subject = divmod(rest, len(subjects))
        return _question(self.id, (numbers[number], subjects[subject], actions[action]))

    def index(self, question: Question) -> int:
        """Returns the index of one of this rule's questions, the inverse of `question`."""
        number, subject, action = (
            _POSITIONS[prop, kind][triple]
            for (prop, kind), triple in zip(self.kinds.items(), zip(*question.images, strict=True), strict=True)
        )
        _, subjects, actions = self._quads()
        return (number * len(subjects) + subject) * len(actions) + action

    def _quads(self) -> list[tuple[Quad, ...]]:
        return [QUADS[prop][kind] for prop, kind in self.kinds.items()]


def _question(rule: int, quads: Iterable[Quad]) -> Question:
    first, second, third, answer = map(Spec._make, zip(*quads, strict=True))
    return Question(rule, (first, second, third), answer)


_POSITIONS = {
    (prop, kind): {quad[:3]: at for at, quad in enumerate(quads)}
    for prop, kinds in QUADS.items()
    for kind, quads in kinds.items()
}

_KINDS = (
    *("S S C", "D S C", "S D C", "D D C", "S C S", "D C S", "S C D", "D C D", "A S S", "A D S"),
    *("A S D", "A D D", "S C C", "D C C", "A C S", "A C D", "A S C", "A D C", "A' C C"),
)
RULES = {number: Rule(number, dict(zip(QUADS, kinds.split(), strict=True))) for number, kinds in enumerate(_KINDS, 1)}
"""Rule id -> rule."""

ND_RULES = tuple(rule.id for rule in RULES.values() if not rule.distractions)
"""The rules of VOILA-ND: 1, 5, 9, 13, 15, 17, 19."""
WD_RULES = tuple(RULES)
"""The rules of VOILA-WD: all."""


class Space:
    """The visible questions of some rules, one after the other.

    Attributes:
        rules: The rules, in ascending order.
        size: Number of questions.
    """

    def __init__(self, rules: Sequence[int]) -> None:
        self.rules = tuple(sorted(rules))
        self._starts = [0, *accumulate(RULES[rule].space for rule in self.rules)]
        self.size = self._starts[-1]

    def question(self, position: int) -> Question:
        """Returns the question at a position of 0..size-1, in constant time."""
        if not 0 <= position < self.size:
            raise IndexError(f"the rules span {self.size:,} questions; there is none at {position:,}")
        index = bisect.bisect_right(self._starts, position) - 1
        return RULES[self.rules[index]].question(position - self._starts[index])

    def position(self, question: Question) -> int:
        """Returns the position of a question, the inverse of `question`."""
        return self._starts[self.rules.index(question.rule)] + RULES[question.rule].index(question)


ALL = Space(WD_RULES)
"""All 157,632,384 visible questions; a position in it is a question's name wherever it is used."""


def recognise(first: Spec, second: Spec, third: Spec) -> Question | None:
    """Returns the question that three images pose, None where they follow no rule.

    The kinds' visible triples are disjoint, so three images determine rule and answer.
    """
    kinds: list[str] = []
    triples = list(zip(first, second, third, strict=True))
    for (prop, known), triple in zip(QUADS.items(), triples, strict=True):
        kind = next((kind for kind in known if triple in _POSITIONS[prop, kind]), None)
        if kind is None:
            return None
        kinds.append(kind)
    if kinds == ["A", "C", "C"]:
        kinds[0] = "A'"
    rule = next((rule for rule in RULES.values() if list(rule.kinds.values()) == kinds), None)
    if rule is None or triples[0] not in _POSITIONS["number", kinds[0]]:
        return None
    quads = (
        QUADS[prop][kind][_POSITIONS[prop, kind][triple]]
        for (prop, kind), triple in zip(rule.kinds.items(), triples, strict=True)
    )
    return _question(rule.id, quads)
