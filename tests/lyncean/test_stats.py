"""The statistics module, held equal to SciPy, statsmodels and krippendorff, none of which the product needs."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import warnings
from unittest import mock

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.contingency_tables import SquareTable
from statsmodels.stats.inter_rater import cohens_kappa, to_table
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from lyncean.statistics import intervals as stats
from lyncean.statistics.distributions import chi_squared_p_value, normal_quantile, t_p_value, t_quantile
from lyncean.statistics.significance import benjamini_hochberg, fisher, holm, homogeneity, mcnemar, sign_flip

levels = st.floats(0.01, 0.999)
degrees = st.one_of(st.integers(1, 300), st.integers(1, 10**7))
counts = st.one_of(st.integers(0, 12), st.integers(0, 3000))
ratings = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=40)


@given(levels)
def test_normal_quantiles(level: float) -> None:
    assert normal_quantile(level) == pytest.approx(scipy_stats.norm.ppf((1 + level) / 2), rel=1e-12, abs=1e-14)


@given(levels, degrees)
def test_quantiles_of_t(level: float, df: int) -> None:
    assert t_quantile(level, df) == pytest.approx(scipy_stats.t.ppf((1 + level) / 2, df), rel=1e-12, abs=1e-14)


@given(st.floats(0.001, 30), degrees)
def test_p_values_of_t(t: float, df: int) -> None:
    expected = 2 * scipy_stats.t.sf(t, df)
    assert t_p_value(t, df) == t_p_value(-t, df) == pytest.approx(expected, rel=1e-11, abs=1e-290)


def test_ends_of_t() -> None:
    assert (t_p_value(0.0, 3), t_p_value(math.inf, 3)) == (1.0, 0.0)


@given(st.floats(-1, 300), st.integers(1, 63))
def test_p_values_of_chi_squared(statistic: float, df: int) -> None:
    expected = scipy_stats.chi2.sf(statistic, df)
    assert chi_squared_p_value(statistic, df) == pytest.approx(expected, rel=1e-12, abs=1e-290)


@given(st.integers(1, 5000), st.floats(0, 1), levels)
def test_wilson(n: int, share: float, level: float) -> None:
    right = round(share * n)
    expected = proportion_confint(right, n, 1 - level, method="wilson")
    assert stats.wilson(right, n, level) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@given(counts, counts)
def test_mcnemar(gained: int, lost: int) -> None:
    assume(gained + lost)
    expected = scipy_stats.binomtest(gained, gained + lost, 0.5).pvalue
    assert mcnemar(gained, lost) == pytest.approx(expected, rel=1e-11, abs=1e-290)


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    # By hand: twice the tail of a fair coin, at most 1.
    [(0, 0, 1.0), (5, 0, 2 / 32), (0, 5, 2 / 32), (6, 2, 2 * (28 + 8 + 1) / 256), (3, 3, 1.0), (10, 1, 2 * 12 / 2048)],
)
def test_mcnemar_is_the_exact_binomial(gained: int, lost: int, p: float) -> None:
    assert mcnemar(gained, lost) == pytest.approx(p)


@given(counts, counts, counts, counts)
def test_fisher(right: int, wrong: int, other_right: int, other_wrong: int) -> None:
    assume(right + wrong and other_right + other_wrong)
    expected = scipy_stats.fisher_exact([[right, wrong], [other_right, other_wrong]]).pvalue
    assert fisher(right, wrong, other_right, other_wrong) == pytest.approx(expected, rel=1e-11, abs=1e-290)


@given(st.integers(1, 5).flatmap(lambda size: st.lists(st.integers(0, 30), min_size=size**2, max_size=size**2)))
def test_stuart_and_maxwell(cells: list[int]) -> None:
    assume(any(cells))
    size = math.isqrt(len(cells))
    table = np.array(cells).reshape(size, size)
    occurs = table.sum(axis=0) + table.sum(axis=1) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        square = SquareTable(table[np.ix_(occurs, occurs)].astype(float), shift_zeros=False)
        expected = float(square.homogeneity().pvalue)
    p_value = homogeneity(table)
    assert p_value is None if math.isnan(expected) else p_value == pytest.approx(expected, abs=1e-10)


@settings(max_examples=20)  # statsmodels takes long
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values(values: list[float]) -> None:
    with mock.patch("gc.collect"):  # which statsmodels calls each time, and which looks at all that tests have loaded
        expected = multipletests(values, method="holm")[1].tolist()
    assert holm(values) == expected
    assert benjamini_hochberg(values) == multipletests(values, method="fdr_bh")[1].tolist()
    assert all(v <= a <= min(1.0, len(values) * v) + 1e-12 for v, a in zip(values, holm(values), strict=True))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == benjamini_hochberg([]) == []


@given(ratings)
def test_cohens_kappa(pairs: list[tuple[str, str]]) -> None:
    kinds = sorted({kind for pair in pairs for kind in pair})
    kappa = stats.cohens_kappa(*zip(*pairs, strict=True))
    if len(kinds) < 2:
        assert kappa is None
    else:
        codes = np.array([[kinds.index(one), kinds.index(other)] for one, other in pairs])
        with np.errstate(all="ignore"):
            expected = cohens_kappa(to_table(codes, bins=len(kinds))[0]).kappa
        assert kappa == pytest.approx(float(expected), abs=1e-12)


@given(st.lists(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=3, max_size=3), min_size=1, max_size=40))
def test_krippendorffs_alpha(units: list[list[int | None]]) -> None:
    votes = np.array([[np.nan if vote is None else vote for vote in unit] for unit in units]).T
    paired = [[str(vote) for vote in unit if vote is not None] for unit in units]
    alpha = stats.krippendorffs_alpha(paired)
    if len({vote for unit in paired if len(unit) > 1 for vote in unit}) < 2:
        assert alpha is None
    else:
        expected = krippendorff.alpha(reliability_data=votes, level_of_measurement="nominal")
        assert alpha == pytest.approx(float(expected), abs=1e-12)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_entropy(numbers: list[int]) -> None:
    assert stats.entropy(numbers) == scipy_stats.entropy(sorted(numbers))


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.floats(0, 1)), min_size=2, max_size=12, unique_by=lambda pair: pair[0])
)
def test_lines(points: list[tuple[int, float]]) -> None:
    x, y = zip(*points, strict=True)
    assume(np.ptp(y) > 1e-6)
    expected = scipy_stats.linregress(x, y)
    assert stats.line(x, y) == (expected.rvalue, expected.slope)


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 9)), min_size=2, max_size=40))
def test_standard_error_over_clusters(clusters: list[tuple[float, int]]) -> None:
    sums, sizes = (np.array(column, float) for column in zip(*clusters, strict=True))
    expected = scipy_stats.sem(sums - sums.sum() / sizes.sum() * sizes) / sizes.mean()
    assert stats.standard_error(sums, sizes) == expected


def test_partial_credit_of_few_groups_has_students_t() -> None:
    values = np.array([0.1, 0.4, 0.35, 0.8, 0.2])
    interval = stats.mean_interval(values, np.ones(5), binary=False, draw=lambda: pytest.fail("no draw"))
    assert interval is not None
    expected = scipy_stats.t.interval(0.95, 4, loc=values.mean(), scale=scipy_stats.sem(values))
    assert interval[:2] == pytest.approx(expected)


def test_a_share_of_few_groups_is_none_beyond_all() -> None:
    interval = stats.mean_interval(np.array([1.0, 1.0, 0.75]), np.ones(3), binary=False, within=stats.SHARE)
    assert interval is not None
    assert 0 < interval.low < 11 / 12 < interval.high < 1


def test_a_change_by_hand() -> None:
    # 20 items, 3 better and 1 worse: 4 and 2 of 22 with Bonett and Price's two more.
    sums = np.array([1.0] * 3 + [-1.0] + [0.0] * 16)
    better, worse = 4 / 22, 2 / 22
    spread = 1.959964 * ((better + worse - (better - worse) ** 2) / 22) ** 0.5
    expected = (better - worse - spread, better - worse + spread)
    assert stats.change_interval(sums, np.ones(20), 4 / 20) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [10, 40, 100])
@pytest.mark.parametrize(("better", "worse"), [(0.01, 0.0), (0.02, 0.02), (0.05, 0.02), (0.1, 0.05), (0.3, 0.05)])
def test_a_change_is_covered_however_few_items_change(count: int, better: float, worse: float) -> None:
    covered = 0.0
    for gained, lost in itertools.product(range(count + 1), repeat=2):
        if gained + lost <= count:
            chance = scipy_stats.multinomial.pmf(
                [gained, lost, count - gained - lost], count, [better, worse, 1 - better - worse]
            )
            if chance > 1e-9:
                sums = np.array([1.0] * gained + [-1.0] * lost + [0.0] * (count - gained - lost))
                low, high = stats.change_interval(sums, np.ones(count), (gained + lost) / count)
                assert low is not None
                assert high is not None
                covered += chance * (low <= better - worse <= high)
    assert covered > 0.93


groups = st.lists(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=5), min_size=1)


@given(groups)
def test_the_observed_change_is_in_the_interval_and_the_interval_is_no_point(clusters: list[list[int]]) -> None:
    sums = np.array([sum(group) for group in clusters], float)
    sizes = np.array([len(group) for group in clusters], float)
    changed = sum(change != 0 for group in clusters for change in group) / sizes.sum()
    low, high = stats.change_interval(sums, sizes, changed)
    if low is None or high is None:
        assert len(clusters) == 1
    else:
        assert -1 <= low <= sums.sum() / sizes.sum() <= high <= 1
        assert high - low > 1 / sizes.sum()


@pytest.mark.parametrize(
    ("labelled", "others", "shift", "expected"),
    [
        (40, 360, 0, (0.49612682733037683, 0.7282675865198193, 0.6148392227261275)),
        (100, 1900, 1, (0.6274317923322966, 0.7676075818819464, 0.6984411232119724)),
        (25, 50, 2, (0.4504854683168721, 0.7704158170562926, 0.6160722450845908)),
    ],
)
def test_prediction_powered_inference_is_that_of_ppi_python(
    labelled: int, others: int, shift: int, expected: tuple[float, float, float]
) -> None:
    """`ppi_mean_ci` of ppi-python 0.2.3 with the two labels added, and its estimate without them at the same weight.

    Without clusters our interval is Wilson's with the centre and the variance of theirs.
    """
    number, rest = np.arange(labelled), np.arange(others)
    human = ((number * 7 + shift) % 10 < 6).astype(float)
    judge = np.where(number % 8 == 3, 1 - human, human)
    unlabelled = ((rest * 3 + shift) % 10 < 6 + shift % 2).astype(float)
    estimate = stats.prediction_powered(human, judge, unlabelled, np.arange(labelled + others))
    low, high, value = expected
    middle, error = (low + high) / 2, (high - low) / 2 / normal_quantile(0.95)
    size = middle * (1 - middle) / error**2
    assert (estimate.low, estimate.high) == pytest.approx(stats.wilson(middle * size, size), abs=1e-12)
    assert estimate.value == pytest.approx(value, abs=1e-12)
    assert 0 < estimate.weight < 1


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=60),
    st.integers(1, 60),
)
def test_prediction_powered_estimates_stay_within_their_interval(
    items: list[tuple[float, float, int]], labelled: int
) -> None:
    human, judge, groups = map(np.array, zip(*items, strict=True))
    count = min(labelled, len(items))
    numbers = np.unique(groups, return_inverse=True)[1]
    estimate = stats.prediction_powered(human[:count], judge[:count], judge[count:], numbers)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.low < estimate.high
    assert 0 <= estimate.weight <= (0 if count == len(items) else 1)


def test_labels_of_one_group_tell_less_than_as_many_independent_ones() -> None:
    human, judge = np.tile([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], 10), np.tile([1.0, 0.0], 330)
    alone = stats.prediction_powered(human, judge[:60], judge[60:], np.arange(660))
    grouped = stats.prediction_powered(human, judge[:60], judge[60:], np.arange(660) // 3)
    assert grouped.high - grouped.low > 1.3 * (alone.high - alone.low)


def test_draws_over_kinds_of_groups_are_draws_over_groups() -> None:
    draw = np.random.default_rng(3)
    sums, sizes = draw.integers(0, 3, (2, 400)).astype(float), draw.integers(3, 5, 400).astype(float)
    weights = draw.multinomial(400, np.full(400, 1 / 400), size=2000)
    plain = (weights @ sums.T) / (weights @ sizes)[:, None]
    means = stats.bootstrap(sums, sizes)
    assert means.shape == (2000, 2)
    assert np.allclose(means.mean(axis=0), plain.mean(axis=0), atol=0.003)
    assert np.allclose(np.cov(means.T), np.cov(plain.T), rtol=0.2, atol=2e-5)


@pytest.mark.parametrize(
    "differences",
    [[1.0, 0.5, -0.25, 2.0, 0.75, 1.5, -0.5, 1.0], [1.0, 1.0, 1.0, -1.0, 2.0, 0.0, 0.5, 0.5, 3.0]],
)
def test_sign_flips_agree_with_the_exact_permutation(differences: list[float]) -> None:
    flips = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
    exact = float((np.abs(flips @ differences) >= abs(sum(differences)) - 1e-12).mean())
    assert sign_flip(np.array(differences))[0] == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("steps", [1, 5, 6, 61, 110, 1000])
def test_whatever_the_number_of_steps_a_plain_loss_is_seen(steps: int) -> None:
    lost, draws = sign_flip(np.full(500, -1.0), steps)
    assert lost == 1 / (draws + 1)
    assert max(holm([lost] * steps)) < 0.05 / 19
    assert sign_flip(np.full(500, -1.0), steps) == (lost, draws)


def test_more_draws_are_made_only_where_the_first_leave_it_open() -> None:
    differences = np.array([1.0] * 14 + [-1.0] * 8 + [0.5])
    plain = sign_flip(differences)
    assert plain[0] > 0.1
    assert sign_flip(differences, 110) == plain
    p, draws = sign_flip(np.array([1.0] * 20 + [-1.0] * 4), 110)
    assert draws == 44_000
    assert p == pytest.approx(mcnemar(20, 4), rel=0.3)


NOTHING_HEAVY = """
import sys
{}
loaded = [name for name in ("scipy", "statsmodels", "krippendorff") if name in sys.modules]
assert not loaded, loaded
"""
SUMMARY = """
import scorer.cli.serve, scorer.service
from scorer.foreign_tasks import ForeignTasks, allow
allow(ForeignTasks(on=True))
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer
names = [name for name in metrics().names() if name not in ("caption", "fact", "rate")]
specs = [pb.MetricSpec(name=name, metric=name, by=[pb.Slice(labels=["slice"])]) for name in names]
summarizer = Summarizer(specs, metrics())
for number in range(80):
    labels = {"slice": str(number % 2), "round": str(number % 3)}
    request = pb.ScoreRequest(key=str(number), labels=labels, group=str(number % 4), targets=["A"], options=["a", "b"])
    verdict = pb.Verdict(key=request.key, outcome="scored", score=number % 2, extracted="AB"[number % 2])
    summarizer.add(request, verdict)
assert summarizer.finish().metrics
"""


@pytest.mark.parametrize(
    "code",
    [SUMMARY, "import orchestrator.cli.eval, orchestrator.run.evaluate", "import orchestrator.compare.result"],
    ids=["scorer", "eval", "compare"],
)
def test_no_large_library_is_loaded(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", NOTHING_HEAVY.format(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("different", [3, 10**6])
def test_kinds_of_many_clusters_are_those_of_all_at_once(different: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_COLUMNS", 16)
    draw = np.random.default_rng(3)
    sums, sizes = draw.integers(0, different, (2, 500)).astype(float), draw.integers(1, 3, 500).astype(float)
    kinds, copies = stats._kinds(sums, sizes)
    every, counts = np.unique(np.vstack([sums, sizes]), axis=1, return_counts=True)
    assert np.array_equal(kinds, every)
    assert np.array_equal(copies, counts)
