"""The items of a stream as columns, ordered by key hash: the input of every metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lyncean.arrays import Bools, Floats, Ints, NDArray, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import ANSWERED, Outcome

OUTCOMES = tuple(Outcome)
CODES = {str(outcome): code for code, outcome in enumerate(OUTCOMES)}
"""Outcome -> its code in `Table.outcome`."""


@dataclass(frozen=True)
class Table:
    """Items, one per row, ordered by a hash of the item's key.

    Equal items make equal tables, in any order and batches of arrival.

    Attributes:
        outcome: Codes into `OUTCOMES`.
        score: Verdict.score; NaN where it is unset.
        group: Number of the row's group; an item without a group forms one with its repeats.
        sample: Number of the row's item over its repeats: its key without `#n`.
        repeat: Number of the row's repeat, from 0.
        combination: Number of the row's labels in `labels`.
        labels: The combinations of label values that occur.
        parts: Verdict.scores by name; NaN where the part is missing.
        facts: ScoreRequest.facts by name; NaN where the fact is missing.
        codes: Text columns, as `Plan.columns` names them: indices into `vocabulary`.
        vocabulary: The distinct values of every text column: strings, or tuples of strings.
        cut: Whether the output limit ended the row's answer; None where no answer is cut.
    """

    outcome: NDArray[np.uint8]
    score: Floats
    group: Ints
    sample: Ints
    repeat: Ints
    combination: Ints
    labels: Sequence[Mapping[str, str]]
    parts: Mapping[str, Floats] = field(default_factory=dict)
    facts: Mapping[str, Floats] = field(default_factory=dict)
    codes: Mapping[str, Ints] = field(default_factory=dict)
    vocabulary: Mapping[str, Sequence[str | tuple[str, ...]]] = field(default_factory=dict)
    cut: Bools | None = None

    def __post_init__(self) -> None:
        """Makes the columns read-only: a metric that changed one would change the results of later metrics."""
        columns: list[NDArray[Any]] = [self.outcome, self.score, self.group, self.sample, self.repeat]
        for column in (*columns, self.combination, *self.parts.values(), *self.facts.values(), *self.codes.values()):
            column.flags.writeable = False
        if self.cut is not None:
            self.cut.flags.writeable = False

    def __len__(self) -> int:
        return len(self.outcome)

    @cached_property
    def answered(self) -> Bools:
        """Rows whose outcome is scored or unparsed."""
        mask: Bools = np.array([outcome in ANSWERED for outcome in OUTCOMES])[self.outcome]
        return mask

    @cached_property
    def scored(self) -> Bools:
        """Rows whose outcome is scored."""
        mask: Bools = self.outcome == CODES[Outcome.SCORED]
        return mask

    def values(self, part: str = "") -> Floats:
        """Returns the score of every row, or the named part of it; 0 for missing ones."""
        column = self.parts[part] if part else self.score
        return np.where(np.isnan(column), 0.0, column)

    def word(self, column: str) -> list[str | tuple[str, ...]]:
        """Returns the values of a text column, row by row."""
        vocabulary = self.vocabulary[column]
        return [vocabulary[code] for code in self.codes[column].tolist()]

    def label(self, name: str) -> list[str | None]:
        """Returns a label's value, row by row; None for items without the label."""
        values = [labels.get(name) for labels in self.labels]
        return [values[code] for code in self.combination.tolist()]

    def take(self, rows: Bools | Ints, *, group: Ints | None = None, sample: Ints | None = None) -> Table:
        """Returns the table of some rows (a mask, or positions, which may repeat), groups and samples renumbered."""
        return Table(
            outcome=self.outcome[rows],
            score=self.score[rows],
            group=self.group[rows] if group is None else group,
            sample=self.sample[rows] if sample is None else sample,
            repeat=self.repeat[rows],
            combination=self.combination[rows],
            labels=self.labels,
            parts={name: column[rows] for name, column in self.parts.items()},
            facts={name: column[rows] for name, column in self.facts.items()},
            codes={name: column[rows] for name, column in self.codes.items()},
            vocabulary=self.vocabulary,
            cut=None if self.cut is None else self.cut[rows],
        )

    def counts(self) -> pb.Counts:
        """Returns the number of items, by outcome and in all."""
        by_code = np.bincount(self.outcome, minlength=len(OUTCOMES))
        fields = {str(outcome): int(number) for outcome, number in zip(OUTCOMES, by_code, strict=True)}
        return pb.Counts(planned=len(self), **fields)


def numbered(values: NDArray[Any]) -> NDArray[np.int32]:
    """Returns each value's rank among the distinct values, from 0: `np.unique`'s inverse, in half its memory."""
    order = np.argsort(values)
    ordered = values[order]
    fresh = np.zeros(len(values), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    del ordered
    numbers = np.empty(len(values), np.int32)
    numbers[order] = np.cumsum(fresh, dtype=np.int32)
    return numbers


def together(numbers: Ints) -> Iterator[Ints]:
    """Yields the rows of each number; numbers and rows are in rising order."""
    if len(numbers):
        order = np.argsort(numbers, kind="stable").astype(np.int32)
        yield from np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
