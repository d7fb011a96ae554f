"""Division of a difference: for any runs and metrics the parts sum to it exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import example, given, strategies as st

from orchestrator.compare.division import NOWHERE, Measure, apportioned, divided
from orchestrator.compare.items import GROUP_ALL, Gathering, Items
from orchestrator.run_folder.reader import Item

ACCURACY = {"metric": "accuracy"}
GROUPS = {"metric": GROUP_ALL}
RED = {"metric": "accuracy", "where": {"colour": {"values": ["red"]}}}
PART = {"metric": "mean", "params": {"part": "half"}}
MEASURES = [Measure(spec, answered) for spec in (ACCURACY, GROUPS, RED, PART) for answered in (False, True)]
VERDICTS = st.one_of(
    st.tuples(st.just("scored"), st.sampled_from([0.0, 1.0, 0.1, 1 / 3])),
    st.just(("unparsed", 0.0)),
    st.sampled_from([("failed", None), ("refused", None)]),
)
RUN = st.dictionaries(st.integers(0, 15), VERDICTS, min_size=1)
Verdicts = Mapping[int, tuple[str, float | None]]


def item(number: int, verdict: tuple[str, float | None]) -> Item:
    outcome, score = verdict
    line = {
        "outcome": outcome, "score": score, "scores": {"half": (score or 0.0) / 2}, "group": str(number // 3),
        "labels": {"colour": "red" if number % 4 else "blue"},
    }  # fmt: skip
    return Item(f"task/{number}", {}, line)


def gathered(run: Verdicts) -> Items:
    gathering = Gathering([ACCURACY, GROUPS, RED, PART], "data")
    for index, (number, verdict) in enumerate(run.items()):
        gathering.add(item(number, verdict), index)
    return gathering.items()


def mean(run: Verdicts, measure: Measure, *, grouped: bool) -> Fraction | None:
    """Computes a mean in the plainest way; None where nothing is counted."""
    counted = {
        number: (Fraction(score or 0) / 2 if measure.spec is PART else Fraction(score or 0))
        for number, (outcome, score) in run.items()
        if (number % 4 or measure.spec is not RED) and (not measure.answered or outcome in ("scored", "unparsed"))
    }
    if grouped:
        groups = {number // 3 for number in counted}
        right = [all(score == 1 for number, score in counted.items() if number // 3 == group) for group in groups]
        return Fraction(sum(right), len(right)) if right else None
    return sum(counted.values(), Fraction(0)) / len(counted) if counted else None


@given(RUN, RUN, st.sampled_from(MEASURES), st.sampled_from(MEASURES))
@example({0: ("scored", 1.0)}, {1: ("scored", 0.0)}, MEASURES[0], MEASURES[0])
@example({0: ("failed", None), 1: ("scored", 1.0)}, {0: ("scored", 1.0)}, MEASURES[1], MEASURES[0])
def test_parts_sum_to_the_difference(first: Verdicts, second: Verdicts, one: Measure, other: Measure) -> None:
    grouped = [one.spec, other.spec] == [GROUPS, GROUPS] and not one.answered and not other.answered
    means = [mean(run, measure, grouped=grouped) for run, measure in ((first, one), (second, other))]
    if None in means:
        return
    totals, differences = divided((gathered(first), gathered(second)), (one, other))
    assert list(totals) == means
    assert sum((difference.part for difference in differences), Fraction(0)) == totals[1] - totals[0]
    places = [(difference.first, difference.second) for difference in differences]
    assert len(set(places)) == len(places), "an item is counted once"
    keys = list(first), list(second)
    for difference in differences:
        numbers = [run[index] for run, index in zip(keys, difference[:2], strict=True) if index != NOWHERE]
        assert len(set(numbers)) == 1
        if one == other:
            assert not difference.counted


def test_a_group_is_divided_among_the_items_that_make_it_fail() -> None:
    right, wrong = ("scored", 1.0), ("scored", 0.0)
    first = {0: right, 1: right, 2: right, 3: wrong, 4: right}
    second = {0: wrong, 1: right, 2: wrong, 3: right, 4: right}
    _, differences = divided((gathered(first), gathered(second)), (Measure(GROUPS), Measure(GROUPS)))
    assert {difference.first: difference.part for difference in differences} == {
        0: -Fraction(1, 4),
        2: -Fraction(1, 4),
        3: Fraction(1, 2),
    }


@given(st.lists(st.fractions(-500, 500, max_denominator=97), max_size=12), st.fractions(-1, 1))
@example([Fraction(1, 3)] * 3, Fraction(0))
def test_rounded_parts_sum_to_the_whole(parts: Sequence[Fraction], off: Fraction) -> None:
    whole: Any = round(sum(parts, Fraction(0)) + off) if any(parts) else 0
    rounded = apportioned(parts, whole)
    assert sum(rounded) == whole
    assert all(not shown for part, shown in zip(parts, rounded, strict=True) if not part)
    most = 1 + (abs(off) + 1)
    assert all(abs(part - shown) <= most for part, shown in zip(parts, rounded, strict=True))
