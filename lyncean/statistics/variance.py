"""The standard error of a mean by its sources: clusters, the levels of facets, and repeats within items."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lyncean.arrays import Floats, Ints, np
from lyncean.statistics.intervals import FEW, NO_SPREAD, clusters, standard_error


class Part(NamedTuple):
    """One source of a mean's variance.

    Attributes:
        name: Name of the source.
        variance: Its contribution to the squared standard error.
        negative: Whether its estimate was below 0, which counts as 0.
        factors: Factors over which it averages out: twice the levels of one halve it.
    """

    name: str
    variance: float
    negative: bool
    factors: frozenset[str]


class Parts(NamedTuple):
    """The variance of a mean by its sources.

    Attributes:
        parts: The sources.
        levels: Factor -> number of its levels; for repeats, the mean number.
        interval: The squared standard error over clusters, that of `mean_interval`: all parts but those of facets.
        total: The same over other levels of the facets as well: the sum of the parts.
        df: Degrees of freedom of `total` (Satterthwaite, Biometrics Bulletin 2 (1946), 110-114).
    """

    parts: list[Part]
    levels: dict[str, float]
    interval: float
    total: float
    df: float

    def doubled(self, factor: str) -> float:
        """Returns `total` with twice as many levels of a factor, as a D study does (Brennan 2001, section 4.1)."""
        return math.fsum(part.variance / (2 if factor in part.factors else 1) for part in self.parts)


def variance_parts(
    values: Floats, groups: Ints, items: Ints, facets: Mapping[str, Ints], orders: Ints | None = None
) -> Parts | None:
    """Splits the variance of a mean into parts: between clusters, between the levels of facets, and within items.

    Random effects by analysis of variance, the method of moments: Brennan, Generalizability Theory, 2001, sections 3.2
    and 7.1; for unequal numbers Searle, Casella and McCulloch, Variance Components, 1992, section 5.3. Within items,
    conditions (the levels of facets that one item has several of), orders and repeats are nested in this order; those
    with fewer than FEW degrees of freedom between them are one part. A facet's noise is taken over clusters.

    Args:
        values: One for each answer.
        groups: The cluster of each answer. These and all levels are numbers from 0 without a gap.
        items: The item of each; further answers to one item are its repeats.
        facets: Facet, for example a prompt -> the level of each answer, -1 for none.
        orders: The order of the options in each question.

    Returns:
        None for fewer than two clusters, and where each item has one answer and no facet two levels.
    """
    (sums,), sizes = clusters(values[None], groups)
    if len(sizes) < 2:
        return None
    interval, over = standard_error(sums, sizes) ** 2, "groups" if len(sizes) <= items.max() else "items"
    levels: dict[str, float] = {over: len(sizes)}
    effects, degrees = list[Part](), interval**2 / (len(sizes) - 1)
    crossed, conditions, rest, lost = list[str](), items, values, 0
    for name, codes in facets.items():
        if (effect := _facet(values, groups, codes)) is None:
            continue
        negative = effect.variance < -NO_SPREAD
        effects.append(Part(name, max(effect.variance, 0.0), negative, frozenset([name])))
        degrees += effect.spread**2 / (effect.number - 1) if effect.variance > 0 else 0.0
        levels[name] = effect.number
        if (both := _crossed(items, codes)).max() > items.max():  # one item has several levels
            crossed.append(name)
            conditions = _crossed(conditions, both)
            rest, lost = rest - effect.shifts, lost + effect.number - 1
    nested = [(f"{' × '.join(crossed)} × items", conditions)] if crossed else []
    nested += [("order", _crossed(conditions, orders))] if orders is not None else []
    within = _within(rest, items, nested, lost, frozenset([over, *crossed]))
    if not effects and not within:
        return None
    if within and "repeats" in within[-1].factors:
        levels["repeats"] = len(values) / (int(conditions.max()) + 1)
    inside = math.fsum(part.variance for part in within)
    if inside > interval:
        within = [part._replace(variance=part.variance * interval / inside) for part in within]
    between = Part(over, max(interval - inside, 0.0), interval - inside < -NO_SPREAD, frozenset([over]))
    total = math.fsum([interval, *(part.variance for part in effects)])
    return Parts([between, *effects, *within], levels, interval, total, total**2 / degrees if degrees else math.inf)


class _Effect(NamedTuple):
    """Effect of a facet: its part of a mean's variance, the same with noise, its levels, and the shifts of answers."""

    variance: float
    spread: float
    number: int
    shifts: Floats


def _facet(values: Floats, groups: Ints, codes: Ints) -> _Effect | None:
    """Returns the effect of a facet: the variance of its levels' means less what their items' noise adds to it.

    Over independent items that all have all levels this is (MS of the facet - MS of the residual) / items; None for
    fewer than two levels of two clusters each.
    """
    width = int(codes.max()) + 1
    cells = np.unique(groups[codes >= 0] * width + codes[codes >= 0])
    known = np.bincount(cells % width, minlength=width) > 1
    number = int(known.sum())
    if number < 2:
        return None
    codes = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[codes]
    rows = codes >= 0
    (sums,), sizes = clusters(values[rows][None], codes[rows])
    means = sums / sizes
    cells, members = np.unique(groups[rows] * number + codes[rows], return_inverse=True)
    group, level = cells // number, cells % number
    (sums,), cell_sizes = clusters(values[rows][None], members)
    counts = np.bincount(level)
    noise = (sums - means[level] * cell_sizes) / sizes[level] * np.sqrt(counts / (counts - 1))[level]
    noise_variance = float((noise**2).sum() - (np.bincount(group, noise) ** 2).sum() / number) / (number - 1)
    spread, share = float(np.var(means, ddof=1)), float(((sizes / sizes.sum()) ** 2).sum())
    shifts = np.append(means - sizes @ means / sizes.sum(), 0.0)[codes]
    return _Effect((spread - noise_variance) * share, spread * share, number, shifts)


def _within(
    values: Floats, items: Ints, nested: Sequence[tuple[str, Ints]], lost: int, factors: frozenset[str]
) -> list[Part]:
    """Returns the parts within items of what is nested in them, the last of them among single answers.

    Args:
        values: One for each answer, the means of facets taken off.
        items: The item of each.
        nested: Names and cells, each finer than the one before.
        lost: Degrees of freedom that taking off took.
        factors: Factors that average out every part.
    """
    number, cells, names, together = len(values), [items], list[str](), list[str]()
    if number == items.max() + 1:
        return []
    for name, codes in nested:
        count, coarser = int(codes.max()) + 1, int(cells[-1].max()) + 1
        if count == coarser:  # a constant
            continue
        together.append(name)
        if min(count - coarser, number - count) >= FEW:
            cells.append(codes)
            names.append(" and ".join(together))
            together = []
    cells.append(np.arange(number))
    names.append(" and ".join([*together, "repeats"]))
    sizes = [np.bincount(codes) for codes in cells]
    squares = [float((np.bincount(codes, values) ** 2 / size).sum()) for codes, size in zip(cells, sizes, strict=True)]
    # Coefficients of each part's variance component in the expected sums of squares.
    held = np.full((len(cells), len(names)), float(number))
    for coarse, fine in itertools.combinations(range(len(cells)), 2):
        first = np.unique(cells[fine], return_index=True)[1]
        held[coarse, fine - 1] = (sizes[fine] ** 2 / sizes[coarse][cells[coarse][first]]).sum()
    expected = np.diff(held, axis=0)
    free = len(sizes[1]) - len(sizes[0])
    expected[0] *= max(free - lost, 1) / free
    components = np.linalg.solve(expected, np.diff(squares))
    shares = [float((size.astype(np.float64) ** 2).sum()) / number**2 for size in sizes[1:]]
    return [
        Part(name, max(part, 0.0), part < -NO_SPREAD, factors if "×" in name else factors | {"repeats"})
        for name, part in zip(names, (components * shares).tolist(), strict=True)
    ]


def _crossed(codes: Ints, other: Ints) -> Ints:
    """Numbers the pairs of levels, from 0 without a gap; -1 is a level of `other`."""
    numbers: Ints = np.unique(codes * (int(other.max()) + 2) + other + 1, return_inverse=True)[1]
    return numbers
