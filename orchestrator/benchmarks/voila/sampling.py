"""Drawing without replacement from spaces too large to hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lyncean.errors import UserError
from orchestrator.benchmarks.voila.rules import RULES, Question

_ROUNDS = 6
_CHUNK = 8192
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class SpaceError(UserError):
    """More questions are asked for than a rule has. The message names the rule and its space."""


class Permutation:
    """A seeded permutation of 0..size-1, element by element and without memory.

    A balanced Feistel network over the next power of four, its round function the finalizer of
    splitmix64; what falls outside is sent through again until it falls inside (cycle walking),
    which keeps it a bijection.

    Args:
        size: How many elements there are; at least one.
        seed: Anything that tells permutations apart.
    """

    def __init__(self, size: int, seed: str) -> None:
        self.size = size
        self._half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        digest = hashlib.shake_256(f"{seed}|{size}".encode()).digest(8 * _ROUNDS)
        self._keys = np.frombuffer(digest, dtype="<u8")

    def __call__(self, places: npt.ArrayLike) -> npt.NDArray[np.uint64]:
        """Returns what stands at some places, each in 0..size-1."""
        questions = self._once(np.atleast_1d(np.asarray(places, dtype=np.uint64)))
        while (outside := questions >= self.size).any():
            questions[outside] = self._once(questions[outside])
        return questions

    def _once(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for key in self._keys:
            mixed = right + key
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(31))) & self._mask)
        result: npt.NDArray[np.uint64] = (left << self._half) | right
        return result


def shares(rules: Sequence[int], count: int) -> dict[int, int]:
    """Distributes a count over rules: the first ones get one more where it does not divide.

    Raises:
        SpaceError: A rule's share is beyond its space.
    """
    quota, more = divmod(count, len(rules))
    wanted = {rule: quota + (index < more) for index, rule in enumerate(rules)}
    for rule, share in wanted.items():
        if share > RULES[rule].space:
            raise SpaceError(
                f"rule {rule} has {RULES[rule].space:,} different questions and {count:,} over {len(rules)} rules "
                f"asks it for {share:,}; at most {len(rules) * min(RULES[one].space for one in rules):,} in all"
            )
    return wanted


def draw(rule: int, count: int, seed: int) -> Iterator[Question]:
    """Yields `count` different questions of a rule, every set equally likely up to the seed."""
    of = RULES[rule]
    permutation = Permutation(of.space, f"voila|{seed}|{rule}")
    for start in range(0, count, _CHUNK):
        for index in permutation(np.arange(start, min(start + _CHUNK, count))).tolist():
            yield of.question(index)


def draw_balanced(rules: Sequence[int], seed: int) -> Iterator[Question]:
    """Yields questions of the rules in turn, none twice, until all are spent."""
    sources = [draw(rule, RULES[rule].space, seed) for rule in rules]
    while sources:
        for source in list(sources):
            question = next(source, None)
            if question is None:
                sources.remove(source)
            else:
                yield question
