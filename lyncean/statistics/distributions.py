"""Distributions in closed form over NumPy: quantiles, p-values and the chances of counts."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

from lyncean.arrays import Floats, np


def normal_quantile(level: float) -> float:
    """Returns the z with a probability of `level` between -z and z."""
    return -NormalDist().inv_cdf((1 - level) / 2)


def t_p_value(t: float, df: float) -> float:
    """Returns the two-sided p-value of Student's t: the regularized incomplete beta function I_x(df/2, 1/2).

    By the continued fraction of Press et al., Numerical Recipes, 3rd ed. 2007, section 6.4; above 1000 degrees of
    freedom, where that loses digits, by integrating the density over the tail.
    """
    square, half = t * t, df / 2
    if square == 0:
        return 1.0
    if math.isinf(square):
        return 0.0
    if df > 1000:
        width = math.sqrt(square + (df + square) * math.expm1(78 / (df + 1))) - abs(t)  # the rest is below 1e-17 of it
        nodes, weights = _gauss_legendre()
        density = np.exp(-(df + 1) / 2 * np.log1p((abs(t) + width * nodes) ** 2 / df))
        return min(1.0, 2 * width * _gamma_ratio(half) / math.sqrt(df) * float(weights @ density))
    front = math.exp(-half * math.log1p(square / df)) * abs(t) / math.sqrt(df + square) * _gamma_ratio(half)
    if square * (half + 1) > 1.5 * df:  # where the fraction converges fast
        return front * _beta_fraction(half, 0.5, df / (df + square)) / half
    return 1 - front * _beta_fraction(0.5, half, square / (df + square)) * 2


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Returns nodes and weights of the quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2


def _gamma_ratio(a: float) -> float:
    """Returns gamma(a + 1/2) / gamma(a) / sqrt(pi); from 100 on by its asymptotic series."""
    if a < 100:
        return math.gamma(a + 0.5) / math.gamma(a) / math.sqrt(math.pi)
    series = (-1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304)
    return math.sqrt(a / math.pi) * (1 + sum(term / a**power for power, term in enumerate(series, 1)))


def _beta_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 100_000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c, d = 1 + step / c, 1 / (1 + step * d)
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def t_quantile(level: float, df: float) -> float:
    """Returns the t with a probability of `level` between -t and t, by Newton's method from the normal quantile.

    The p-value is convex in t, and the normal quantile is the smaller one: the steps never overshoot.
    """
    t = normal_quantile(level)
    for _ in range(200):
        density = math.exp(-(df + 1) / 2 * math.log1p(t * t / df)) * _gamma_ratio(df / 2) / math.sqrt(df)
        step = (t_p_value(t, df) - (1 - level)) / (2 * density)
        t += step
        if abs(step) <= 1e-15 * t:
            break
    return t


def chi_squared_p_value(statistic: float, df: int) -> float:
    """Returns the upper tail of the chi-squared distribution of `df` >= 1 degrees of freedom, a finite sum."""
    y = max(statistic, 0.0) / 2
    start = 0.5 * (df % 2)
    term = 2 * math.exp(-y) * math.sqrt(y / math.pi) if start else math.exp(-y)
    total = math.erfc(math.sqrt(y)) if start else 0.0
    for number in range(df // 2):
        total += term
        term *= y / (number + 1 + start)
    return min(total, 1.0)


def unimodal(ratios: Floats) -> Floats:
    """Returns probabilities that sum to 1, of which each is `ratios` times the one before; the ratios fall."""
    mode = int(np.searchsorted(-ratios, -1.0))
    with np.errstate(under="ignore"):
        below = np.cumprod(1 / ratios[:mode][::-1])[::-1]
        chances: Floats = np.concatenate([below, [1.0], np.cumprod(ratios[mode:])])
    chances /= chances.sum()
    return chances
