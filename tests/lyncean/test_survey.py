"""Estimates from a random sample of units: properties that hold with any answers of other runs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.page_commands import ROOT
from hypothesis import given, settings, strategies as st

from lyncean.statistics.survey import estimate

NOTHING = np.zeros((60, 0))


def test_all_units_asked_is_the_figure_itself() -> None:
    random = np.random.default_rng(0)
    totals, sizes = (random.random(60) < 0.7).astype(float), np.ones(60)
    for others in (NOTHING, random.random((60, 3))):
        result = estimate(totals, np.arange(60), sizes, others)
        assert result.value == result.low == result.high == pytest.approx(totals.mean())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_ends_hold_the_value_and_what_is_certain(data: st.DataObject) -> None:
    every = data.draw(st.integers(2, 80))
    sizes = np.array(data.draw(st.lists(st.integers(1, 4), min_size=every, max_size=every)), float)
    count = data.draw(st.integers(2, every))
    totals = np.array([data.draw(st.integers(0, int(size))) for size in sizes[:count]], float)
    runs = data.draw(st.integers(0, 3))
    others = np.random.default_rng(count).integers(0, 2, (every, runs)).astype(float)
    others[::7] = np.nan
    result = estimate(totals, np.arange(count), sizes, others)
    rest = sizes[count:].sum()
    assert totals.sum() / sizes.sum() - 1e-9 <= result.low <= result.value <= result.high
    assert result.high <= (totals.sum() + rest) / sizes.sum() + 1e-9
    assert 0 <= result.explained <= 1


def test_a_run_that_answers_alike_narrows_it_and_a_foreign_one_does_not() -> None:
    random = np.random.default_rng(3)
    right = (random.random(2000) < 0.6).astype(float)
    alike = np.where(random.random(2000) < 0.9, right, 1 - right)
    foreign = (random.random((2000, 5)) < 0.5).astype(float)
    sampled, sizes = random.permutation(2000)[:300], np.ones(2000)
    plain = estimate(right[sampled], sampled, sizes, np.zeros((2000, 0)))
    with_alike = estimate(right[sampled], sampled, sizes, np.column_stack([foreign, alike]))
    with_foreign = estimate(right[sampled], sampled, sizes, foreign)
    assert with_alike.explained > 0.4
    assert with_alike.high - with_alike.low < 0.8 * (plain.high - plain.low)
    assert with_alike.low <= right.mean() <= with_alike.high
    assert with_foreign.explained < 0.1


def test_one_unit_is_none() -> None:
    with pytest.raises(ValueError, match="needs two units"):
        estimate(np.ones(1), np.arange(1), np.ones(60), NOTHING)


def test_the_interval_covers_in_simulated_worlds_and_relatives_help() -> None:
    bench = [sys.executable, str(ROOT / "bench" / "bench_survey.py"), "--models", "100", "--most", "600"]
    measured = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)
    worlds = {name: world for name, world in measured.items() if isinstance(world, dict)}
    for which in ("plain", "with runs"):
        covers = [world[f"{which}: covers"] for world in worlds.values()]
        assert sum(covers) / len(covers) >= 0.92, "95% of 1,000 models"
    related = [world for name, world in worlds.items() if "related" in name]
    assert all(world["with runs: width"] < world["plain: width"] for world in related)
