"""The parts of a standard error: textbook estimates where the design is balanced, and honest elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lyncean.arrays import Floats, Ints
from lyncean.statistics import intervals as stats
from lyncean.statistics.variance import Parts, variance_parts


def crossed(seed: int, items: int, prompts: int, repeats: int) -> tuple[Floats, Ints, Ints]:
    """Returns scores of items x prompts x repeats, and the codes of item and prompt."""
    random = np.random.default_rng(seed)
    shape = (items, prompts, repeats)
    item, prompt, _ = (codes.ravel() for codes in np.indices(shape))
    both = random.normal(0, 0.2, shape[:2])[..., None]
    scores = random.normal(0, 0.4, (items, 1, 1)) + random.normal(0, 0.1, (1, prompts, 1)) + both
    return (scores + random.normal(0, 0.3, shape)).ravel(), item, prompt


def errors(parts: Parts | None) -> dict[str, float]:
    assert parts
    return {part.name: part.variance for part in parts.parts}


@given(st.integers(0, 10_000), st.integers(32, 60), st.integers(2, 5), st.integers(2, 3))
def test_a_balanced_design_has_the_estimates_of_the_textbook(seed: int, items: int, prompts: int, repeats: int) -> None:
    values, item, prompt = crossed(seed, items, prompts, repeats)
    parts = variance_parts(values, item, item, {"prompt": prompt})
    cube = values.reshape(items, prompts, repeats)
    cells, by_item, by_prompt, mean = cube.mean(2), cube.mean((1, 2)), cube.mean((0, 2)), cube.mean()
    square_item = prompts * repeats * ((by_item - mean) ** 2).sum() / (items - 1)
    square_prompt = items * repeats * ((by_prompt - mean) ** 2).sum() / (prompts - 1)
    both = cells - by_item[:, None] - by_prompt + mean
    square_both = repeats * (both**2).sum() / (items - 1) / (prompts - 1)
    square_answer = ((cube - cells[..., None]) ** 2).sum() / (items * prompts * (repeats - 1))
    expected = {
        "items": (square_item - square_both) / cube.size,
        "prompt": (square_prompt - square_both) / cube.size,
        "prompt × items": (square_both - square_answer) / cube.size,
        "repeats": square_answer / cube.size,
    }
    if min(expected.values()) > 0:
        assert errors(parts) == pytest.approx(expected, rel=1e-9)
        assert parts
        assert parts.interval == pytest.approx(square_item / cube.size)
    assert parts
    assert parts.levels == {"items": items, "prompt": prompts, "repeats": repeats}


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_parts_add_up_to_the_interval_and_the_order_of_answers_leaves_no_trace(
    seed: int, prompts: int, repeats: int, group: int
) -> None:
    random = np.random.default_rng(seed)
    values, item, prompt = crossed(seed, 12 * group, prompts, repeats)
    kept = random.random(len(values)) < 0.8  # no longer balanced
    values, item, prompt = values[kept], np.unique(item[kept], return_inverse=True)[1], prompt[kept]
    groups, orders = np.unique(item // group, return_inverse=True)[1], random.integers(0, 2, len(values))
    parts = variance_parts(values, groups, item, {"prompt": prompt}, orders)
    sums, sizes = stats.clusters(values[None], groups)
    error = stats.standard_error(sums[0], sizes)
    if parts is None:
        assert prompts == repeats == 1
        return
    assert parts.interval == pytest.approx(error**2)
    assert math.fsum(errors(parts).values()) == pytest.approx(parts.total)
    assert parts.total - errors(parts).get("prompt", 0.0) == pytest.approx(error**2)
    assert all(part.variance == 0 for part in parts.parts if part.negative)
    assert all(parts.doubled(factor) <= parts.total for factor in parts.levels)
    rows = random.permutation(len(values))
    renamed = random.permutation(int(prompt.max()) + 1)[prompt]
    again = variance_parts(values[rows], groups[rows], item[rows], {"prompt": renamed[rows]}, orders[rows])
    assert errors(again) == pytest.approx(errors(parts), abs=1e-12)


def test_what_does_not_vary_has_no_part() -> None:
    values, item, _ = crossed(1, 40, 1, 3)
    one = np.zeros(len(values), np.int64)
    assert errors(variance_parts(values, item, item, {"prompt": one}, one)).keys() == {"items", "repeats"}
    assert variance_parts(values[:40], one[:40].cumsum() + np.arange(40), np.arange(40), {"prompt": one[:40]}) is None
    assert variance_parts(values, one, item, {}) is None, "one cluster tells nothing"


def test_answers_that_only_the_order_decides() -> None:
    random = np.random.default_rng(2)
    item, orders = np.repeat(np.arange(80), 6), random.integers(0, 2, 480)
    values = (random.integers(0, 2, 80)[item] == orders).astype(float)
    by_part = errors(variance_parts(values, item, item, {}, orders))
    assert by_part["repeats"] == pytest.approx(0, abs=1e-15)
    assert by_part["order"] > by_part["items"]


def test_orders_that_hardly_recur_are_not_told_from_repeats() -> None:
    random = np.random.default_rng(3)
    values, item, _ = crossed(3, 40, 1, 3)
    parts = variance_parts(values, item, item, {}, random.integers(0, 120, 120))
    assert errors(parts).keys() == {"items", "order and repeats"}


def test_prompts_that_each_item_has_one_of() -> None:
    """Instructions that cycle over the rows: a shift of one is seen against the noise of its own items."""
    random = np.random.default_rng(4)
    item = np.arange(1000)
    prompt = item % 5
    shifts = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    values = random.normal(0, 0.3, 1000) + shifts[prompt]
    parts = variance_parts(values, item, item, {"prompt": prompt})
    assert errors(parts)["prompt"] == pytest.approx(np.var(shifts, ddof=1) / 5, rel=0.2)
    assert errors(parts).keys() == {"items", "prompt"}
    alike = variance_parts(values - shifts[prompt], item, item, {"prompt": prompt})
    assert errors(alike)["prompt"] < errors(parts)["prompt"] / 50


def test_a_level_of_one_cluster_and_answers_without_a_level_count_for_no_facet() -> None:
    values, item, prompt = crossed(5, 40, 3, 2)
    expected = variance_parts(values, item, item, {"prompt": prompt})
    odd = np.append(values, [9.0, 9.0]), np.append(item, [40, 41])
    parts = variance_parts(*odd, odd[1], {"prompt": np.append(prompt, [-1, 3])})
    assert expected
    assert parts
    assert parts.levels["prompt"] == 3
    assert errors(parts)["prompt"] == pytest.approx(errors(expected)["prompt"], rel=0.05)
