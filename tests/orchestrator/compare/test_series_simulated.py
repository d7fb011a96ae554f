"""Simulated trainings: how often the rule over a whole training is wrong, and how soon it finds a planted fall."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from orchestrator.compare import series
from orchestrator.compare.items import Units
from orchestrator.compare.scores import Step
from orchestrator.compare.series import BEST, PREVIOUS, Change

STEP = Step("t", "accuracy")
LENGTH = 100
FIXED = "fixed"


@dataclass(frozen=True, eq=False)
class Scored:
    """The part of a run's scores that `changes` reads."""

    run: Any
    steps: dict[Step, Any]
    of_step: Units

    def repeats(self, _: Step) -> int:
        return 1

    def units(self, _: Step, *, questions: bool = False) -> Units:
        assert not questions
        return self.of_step


class Trainings:
    """Trainings of equal checkpoints: four items of ten are answered by a fair coin, so 20% flip between two."""

    def __init__(self, items: int, seed: int) -> None:
        self.random, self.items = np.random.default_rng(seed), items
        self.names = np.array([f"{number:016d}" for number in range(items)], dtype="S16")
        self.clusters = np.arange(items, dtype=np.uint64)

    def chances(self) -> Any:
        drawn = self.random.random(self.items)
        return np.where(drawn < 0.4, 0.5, np.where(drawn < 0.7, 1.0, 0.0))

    def right(self, chances: Any, checkpoints: int) -> Any:
        return self.random.random((checkpoints, self.items)) < chances

    def changes(self, right: Any, baseline: str) -> list[Change]:
        runs: list[Any] = [
            Scored(SimpleNamespace(name=f"step_{at}"), {STEP: {}}, Units(self.names, row.astype(float), self.clusters))
            for at, row in enumerate(right)
        ]
        return series.changes(runs, runs[0] if baseline == FIXED else baseline)

    def false_alarms(self, trainings: int, baseline: str, length: int = LENGTH) -> int:
        """Returns how many trainings of equal checkpoints have an alarm."""
        return sum(
            any(one.alarm for one in self.changes(self.right(self.chances(), length), baseline))
            for _ in range(trainings)
        )

    def detections(self, trainings: int, baseline: str, fall: float, *, hard: bool = False) -> int:
        """Returns in how many trainings a fall at a random checkpoint is found by it or the next one.

        Args:
            trainings: How many.
            baseline: What checkpoints are compared with.
            fall: Of the accuracy.
            hard: Whether items that were always right are always wrong from then on; else coins fall more rarely.
        """
        total = 0
        for _ in range(trainings):
            at, before = int(self.random.integers(5, LENGTH // 4)), self.chances()
            after = np.where(before == 0.5, 0.5 - fall / 0.4, before)
            if hard:
                lost = self.random.choice(np.flatnonzero(before == 1), round(fall * self.items), replace=False)
                after = before.copy()
                after[lost] = 0.0
            right = np.concatenate([self.right(before, at), self.right(after, 2)])
            total += any(one.alarm for one in self.changes(right, baseline)[-2:])
        return total


@pytest.mark.parametrize("baseline", [PREVIOUS, BEST, FIXED])
def test_a_fall_of_five_points_is_found_within_two_checkpoints(baseline: str) -> None:
    detected = Trainings(1500, 1).detections(40, baseline, 0.05)
    assert detected >= 31, "90% of 40, and what their binomial allows in 99%"


def test_equal_checkpoints_raise_few_alarms() -> None:
    wrong = sum(Trainings(1500, 2).false_alarms(6, baseline) for baseline in (PREVIOUS, BEST, FIXED))
    assert wrong <= 4, "5% of 18, and what their binomial allows in 99%"


@pytest.mark.weekly
@pytest.mark.parametrize("baseline", [PREVIOUS, BEST, FIXED])
def test_false_alarms_of_a_hundred_checkpoints_are_five_percent_in_total(baseline: str) -> None:
    for items in (200, 1500):
        assert Trainings(items, 3).false_alarms(150, baseline) <= 15, "5% of 150, and their binomial's 99%"


@pytest.mark.weekly
@pytest.mark.parametrize("baseline", [PREVIOUS, BEST, FIXED])
def test_the_detectable_fall_is_found_in_nine_of_ten_trainings(baseline: str) -> None:
    for items in (770, 1500):
        trainings = Trainings(items, 5)
        (*_, last) = trainings.changes(trainings.right(trainings.chances(), 20), baseline)
        assert last.detectable is not None
        assert trainings.detections(150, baseline, last.detectable) >= 126, "90% of 150, and their binomial's 99%"
    assert 40 <= Trainings(770, 6).detections(100, FIXED, 0.05) <= 75, "about half"


@pytest.mark.weekly
def test_the_detectable_fall_of_few_items_is_found_as_often() -> None:
    trainings = Trainings(80, 5)
    (*_, last) = trainings.changes(trainings.right(trainings.chances(), 20), PREVIOUS)
    assert last.detectable is not None
    assert last.detectable < 0.2, "coins can fall no further"
    assert trainings.detections(150, PREVIOUS, last.detectable) >= 126, "90% of 150, and their binomial's 99%"


def test_a_short_training_and_one_without_common_items_have_no_change() -> None:
    trainings = Trainings(20, 7)
    right = trainings.right(trainings.chances(), 2)
    assert trainings.changes(right[:1], PREVIOUS) == []
    (change,) = trainings.changes(right, PREVIOUS)
    assert (change.model, change.baseline, change.items) == ("step_1", "step_0", 20)
    assert change.low <= change.difference <= change.high
    other = Trainings(20, 7)
    other.names = np.array([f"x{number:015d}" for number in range(20)], dtype="S16")
    runs: list[Any] = [
        Scored(SimpleNamespace(name=name), {STEP: {}}, Units(training.names, right[0].astype(float), training.clusters))
        for name, training in (("a", trainings), ("b", other))
    ]
    assert series.changes(runs, PREVIOUS) == []


def test_the_next_checkpoint_confirms_a_fall_and_one_that_recovers_does_not() -> None:
    """Of 400 items 25 are lost, and 20 others are wrong by chance at each checkpoint: too much noise for one alone."""
    trainings = Trainings(400, 8)
    right = np.ones((4, 400), bool)
    for checkpoint in range(4):
        right[checkpoint, 100 + 20 * checkpoint : 120 + 20 * checkpoint] = False
    right[2:, :25] = False
    assert not trainings.changes(right[:3], PREVIOUS)[-1].alarm
    confirmed = trainings.changes(right, PREVIOUS)[-1]
    assert confirmed.alarm
    assert confirmed.why.startswith("fell with step_2, the two together against step_0 and step_1: ")
    right[3, :25] = True
    assert not trainings.changes(right, PREVIOUS)[-1].alarm
