"""A metric over all units of a benchmark, estimated from a simple random sample of them.

Scores of other runs on all units can narrow the interval. With any runs the bias is at most of order 1/n, since only
the sample is random.
bench/bench_survey.py measures errors and coverage.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lyncean.arrays import Floats, Ints, np
from lyncean.statistics.distributions import t_quantile

_FOLDS = 5
_FEWEST = 30
"""Sampled units below which the answers of other runs are not used."""
_RIDGE = 2.0
"""Shrinks the coefficient of a run chosen for its similarity, which may be due to chance."""
_PSEUDO = 1.0
"""Added to the residuals' sum of squares: with 4 more items, half of them right, Wilson's interval does as much."""


class Estimate(NamedTuple):
    """An estimate of sum(totals) / sum(sizes) over all units.

    Attributes:
        value: The estimate.
        low: Lower end of its interval.
        high: Upper end.
        explained: Share of the variance between units that the other runs explain, 0 without any.
    """

    value: float
    low: float
    high: float
    explained: float


def estimate(totals: Floats, sampled: Ints, sizes: Floats, others: Floats, level: float = 0.95) -> Estimate:
    """Returns the estimate.

    The difference estimator with regression on two columns: the mean score of the other runs, and the score of the one
    run that is most like this one. For each fold the run is chosen and the
    regression fitted without the fold's units, whose residuals then correct the predictions without
    overfitting. Source: Saerndal, Swensson and Wretman, Model Assisted Survey Sampling (1992),
    chapter 6; Wu and Gagnon-Bartsch, Evaluation Review 42 (2018), 458-488, for the folds.

    Args:
        totals: Sum of the scores of each sampled unit, in the random order of the draw.
        sampled: Indices of these units among all, of the same length.
        sizes: Number of items of every unit.
        others: Scores per item of other runs, [all units, runs]; NaN if missing; zero columns without runs.
        level: Coverage of the interval.

    Raises:
        ValueError: If fewer than two units were sampled.
    """
    count, every = len(totals), len(sizes)
    if count < 2:
        raise ValueError("an estimate needs two units")
    items, known = float(sizes.sum()), float(totals.sum())
    plain = sizes * (known / float(sizes[sampled].sum()))
    sums, residuals, parameters = float(plain.sum()), totals - plain[sampled], 1
    around = float(residuals @ residuals)
    if others.shape[1] and count >= _FEWEST:
        assisted, missed = _assisted(totals, sampled, sizes, _filled(others))
        if float(missed @ missed) < around:
            sums, residuals, parameters = assisted, missed, 3
    value = (sums + every * float(residuals.mean())) / items
    freedom = max(count - parameters, 1)
    squares = float(((residuals - residuals.mean()) ** 2).sum()) + _PSEUDO * float(sizes.mean()) ** 2
    half = t_quantile(level, freedom) * math.sqrt((1 - count / every) * squares / freedom / count) * every / items
    least = known / items
    most = least + (items - float(sizes[sampled].sum())) / items
    value = min(max(value, least), most)
    explained = 1 - float(residuals @ residuals) / around if parameters > 1 else 0.0
    return Estimate(value, max(value - half, least), min(value + half, most), explained)


def _filled(others: Floats) -> Floats:
    """Replaces missing scores by the unit's mean, or 0 for a unit without scores."""
    known = ~np.isnan(others)
    filled = np.where(known, others, 0.0)
    means = filled.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    return np.where(known, others, means)


def _assisted(totals: Floats, sampled: Ints, sizes: Floats, others: Floats) -> tuple[float, Floats]:
    """Returns the sum of the predictions for all units, and the residual of each sampled unit."""
    mean = others.mean(axis=1)
    basis = np.column_stack([sizes, sizes * (mean - mean.mean())])
    deviations = others - mean[:, None]
    fold = np.arange(len(totals)) % _FOLDS
    sums, residuals = 0.0, np.zeros(len(totals))
    for part in range(_FOLDS):
        out = fold == part
        rows, wanted = sampled[~out], totals[~out]
        left = wanted - basis[rows] @ _fit(basis[rows], wanted, [0.0, _RIDGE / 10])
        columns, ridge = basis, [0.0, _RIDGE / 10]
        if others.shape[1] > 1:
            seen = deviations[rows] * sizes[rows, None]
            alike = (seen.T @ left) / np.sqrt((seen**2).sum(axis=0) + 1e-9)
            columns = np.column_stack([basis, sizes * deviations[:, int(np.argmax(alike))]])
            ridge = [*ridge, _RIDGE]
        predicted = columns @ _fit(columns[rows], wanted, ridge)
        sums += float(predicted.sum()) * float(out.mean())
        residuals[out] = totals[out] - predicted[sampled[out]]
    return sums, residuals


def _fit(columns: Floats, wanted: Floats, ridge: list[float]) -> Floats:
    """Returns the coefficients of a ridge regression; the first column, the sizes, is never zero."""
    gram = columns.T @ columns + np.diag(ridge)
    return np.asarray(np.linalg.solve(gram, columns.T @ wanted), np.float64)
