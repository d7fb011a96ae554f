"""The smallest difference that a run can show, and the slices that differ from the rest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.scorer_asking import measure, passed, spec, summarize
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_effectsize
from statsmodels.tools import add_constant

from lyncean.statistics.intervals import detectable_difference, is_binary
from scorer.metrics.intervals import gathered
from scorer.metrics.multiplicity import against_rest
from scorer.metrics.table import Floats, Ints


def detectable(values: Floats, clusters: Ints | None) -> float | None:
    return detectable_difference(*gathered(values, clusters), binary=is_binary(values)).fall


def test_detectable_difference_of_shares_agrees_with_statsmodels() -> None:
    for right in (191, 740):
        share, values = right / 770, np.r_[np.ones(right), np.zeros(770 - right)]
        difference = detectable_difference(*gathered(values, None), binary=True)
        assert difference.fall is not None
        assert difference.rise is not None
        assert (difference.fall > difference.rise) is (share > 0.5), "the way towards 50% is the harder one"
        for other in (share - difference.fall, share + difference.rise):
            size = abs(proportion_effectsize(other, share))
            assert NormalIndPower().solve_power(size, nobs1=770, alpha=0.05) == pytest.approx(0.8, abs=0.001)
    assert detectable_difference(np.ones(50), np.ones(50), binary=True).rise is None


def test_detectable_difference_shrinks_with_items_and_grows_with_clusters() -> None:
    values = np.tile([1.0, 1.0, 0.0, 0.0], 50)
    alone = detectable(values, None)
    assert alone > detectable(np.tile(values, 4), None)
    assert alone < detectable(values, np.arange(200) // 2)
    assert alone == pytest.approx(detectable(values, np.arange(200)))


def test_detectable_difference_of_partial_credit_agrees_with_statsmodels() -> None:
    values = np.random.default_rng(0).beta(2, 5, 300)
    size = detectable(values, None) / values.std(ddof=1)
    assert NormalIndPower().solve_power(size, nobs1=300, alpha=0.05) == pytest.approx(0.8, abs=0.001)


@pytest.mark.parametrize("values", [[1.0], [0.0, 1.0], [0.5, 0.5]])
def test_too_little_to_show_anything(values: list[float]) -> None:
    assert detectable(np.array(values), None) is None


def test_detectable_difference_is_in_the_metrics_unit() -> None:
    items = [passed(str(n), "scored", float(n % 2)) for n in range(100)]
    share, percent = (measure(items, "accuracy", unit=unit).details for unit in ("fraction", "percent"))
    for key in ("minimum_detectable_fall", "minimum_detectable_rise"):
        assert percent[key] == pytest.approx(100 * share[key])


def test_fisher_where_items_are_independent() -> None:
    values = np.r_[np.ones(8), np.zeros(2), np.ones(20), np.zeros(40)]
    inside = np.arange(70) < 10
    assert against_rest(inside, values, None) == pytest.approx(stats.fisher_exact([[8, 2], [20, 40]]).pvalue)


def test_regression_over_clusters_agrees_with_statsmodels() -> None:
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(60), 4)
    values = np.clip(np.repeat(rng.random(60), 4) + rng.normal(0, 0.1, 240), 0, 1)
    inside = rng.random(240) < 0.3
    fitted = OLS(values, add_constant(inside.astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
    t = abs(fitted.params[1]) / (fitted.bse[1] * np.sqrt(60 / 59))
    assert against_rest(inside, values, clusters) == pytest.approx(2 * stats.t.sf(t, 59))


def test_whole_clusters_are_permuted() -> None:
    # Six clusters of 1 to 3 items, two of them inside: all 15 pairs by hand.
    clusters = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5])
    values = np.array([1, 1, 1, 0, 0, 1, 0, 0, 0, 0], float)
    pulls = np.bincount(clusters, values - values.mean())
    far = [abs(pulls[list(pair)].sum()) for pair in itertools.combinations(range(6), 2)]
    expected = np.mean([one >= far[0] - 1e-9 for one in far])
    assert against_rest(clusters < 2, values, clusters) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("inside", "share"), [(2, 0.5), (3, 0.1), (10, 0.2)])
def test_few_clusters_alike_by_chance_are_no_finding(inside: int, share: float) -> None:
    rng, clusters, findings = np.random.default_rng(3), np.repeat(np.arange(40), 3), 0
    for _ in range(200):
        values = np.repeat(rng.random(40) < share, 3).astype(float)
        findings += (against_rest(clusters < inside, values, clusters) or 1.0) < 0.05
    assert findings <= 18, "5 % of 200, and luck; a regression with cluster-robust errors found 21 to 99"


@pytest.mark.parametrize("comparisons", [1, 1000])
def test_a_plain_difference_is_seen_among_any_number_of_slices(comparisons: int) -> None:
    clusters = np.repeat(np.arange(200), 2)
    inside = clusters < 40
    p_value = against_rest(inside, np.where(inside, 1.0, 0.0), clusters, comparisons)
    assert p_value is not None
    assert p_value * comparisons < 0.01


def test_many_kinds_of_clusters_are_normal() -> None:
    rng = np.random.default_rng(5)
    values, inside = rng.random(400), np.arange(400) < 90
    expected = stats.ttest_ind(values[inside], values[~inside]).pvalue
    assert against_rest(inside, values, None) == pytest.approx(expected, rel=0.05)


def test_slices_say_whether_they_differ_when_many_are_looked_at() -> None:
    rng = np.random.default_rng(4)
    items = [
        passed(str(n), "scored", float(rng.random() < (0.95 if n % 20 == 0 else 0.5)), labels={"a": f"{n % 20:02}"})
        for n in range(800)
    ]
    overall, *slices = summarize(items, spec("acc", "accuracy", ["a"])).metrics
    assert "against_rest" not in overall.details
    assert len(slices) == 20
    notes = [one.details["against_rest"] for one in slices]
    assert all(note["p_value"] <= note["p_benjamini_hochberg"] <= note["p_holm"] for note in notes)
    assert {note["comparisons"] for note in notes} == {20}
    assert [note["p_holm"] < 0.05 for note in notes] == [True] + [False] * 19


def test_a_single_slice_is_compared_with_nothing() -> None:
    items = [passed(str(n), "scored", float(n % 2), labels={"a": "x"}) for n in range(10)]
    assert "against_rest" not in summarize(items, spec("acc", "accuracy", ["a"])).metrics[1].details
