"""Estimates from a random sample of units: what must hold whatever other runs answered."""

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
        found = estimate(totals, np.arange(60), sizes, others)
        assert found.value == found.low == found.high == pytest.approx(totals.mean())


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
    found = estimate(totals, np.arange(count), sizes, others)
    rest = sizes[count:].sum()
    assert totals.sum() / sizes.sum() - 1e-9 <= found.low <= found.value <= found.high
    assert found.high <= (totals.sum() + rest) / sizes.sum() + 1e-9
    assert 0 <= found.explained <= 1


def test_a_run_that_answers_alike_narrows_it_and_a_foreign_one_does_not() -> None:
    random = np.random.default_rng(3)
    right = (random.random(2000) < 0.6).astype(float)
    alike = np.where(random.random(2000) < 0.9, right, 1 - right)
    foreign = (random.random((2000, 5)) < 0.5).astype(float)
    asked, sizes = random.permutation(2000)[:300], np.ones(2000)
    plain = estimate(right[asked], asked, sizes, np.zeros((2000, 0)))
    with_alike = estimate(right[asked], asked, sizes, np.column_stack([foreign, alike]))
    with_foreign = estimate(right[asked], asked, sizes, foreign)
    assert with_alike.explained > 0.4
    assert with_alike.high - with_alike.low < 0.8 * (plain.high - plain.low)
    assert with_alike.low <= right.mean() <= with_alike.high
    assert with_foreign.explained < 0.1


def test_one_unit_is_none() -> None:
    with pytest.raises(ValueError, match="needs two units"):
        estimate(np.ones(1), np.arange(1), np.ones(60), NOTHING)


def test_the_interval_covers_in_simulated_worlds_and_relatives_help() -> None:
    bench = [sys.executable, str(ROOT / "bench" / "bench_survey.py"), "--models", "100", "--most", "600"]
    found = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)
    worlds = {name: each for name, each in found.items() if isinstance(each, dict)}
    for which in ("plain", "with runs"):
        covers = [each[f"{which}: covers"] for each in worlds.values()]
        assert sum(covers) / len(covers) >= 0.92, "95% of 1,000 models"
    related = [each for name, each in worlds.items() if "related" in name]
    assert all(each["with runs: width"] < each["plain: width"] for each in related)
