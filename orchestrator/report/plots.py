"""Charts of what is no figure: option bias, calibration, latency, throughput, and tasks among each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.charts import Chart, percent
from orchestrator.report.drawing import (
    ACCENT,
    INK,
    MUTED,
    SECOND,
    SERIES,
    Row,
    axis,
    box,
    dot,
    line,
    plane,
    polyline,
    rows,
    said,
    text,
)
from orchestrator.run_folder.metrics import Figure

Pairs = NDArray[np.float64]
"""Two numbers a row."""

Calls = Mapping[str, Pairs]
"""Replica -> when each of its calls began (seconds since the epoch) and how long it took."""

_MOST_OPTIONS = 10
_BINS = 10
_TIME_BINS = 40
_MOST_NAMED = 15


def choice_bias(figure: Figure) -> Chart:
    """The details of the metric choice_bias: how often each option is chosen, and how often it is right."""
    chosen, right = figure.details.get("chosen", {}), figure.details.get("key", {})
    shares = {name: (float(chosen.get(name, 0)), float(right.get(name, 0))) for name in sorted({*chosen, *right})}
    constant = (
        f" Answers are as good as constant: always {figure.details.get('majority')}."
        if figure.details.get("constant")
        else ""
    )
    return _options(
        f"{figure.task}: {figure.name}",
        shares,
        f"over {figure.denominator_answered or figure.denominator:,} read answers.{constant}",
    )


def option_bias(where: tuple[str, str], chosen: Counter[str], right: Counter[str]) -> Chart | None:
    """Which options are chosen, and which are right; None where options have no names of their own."""
    names = sorted(chosen.keys() | right.keys())
    # Options whose names are their texts differ from item to item: there is no position to be biased to.
    if not 2 <= len(names) <= _MOST_OPTIONS or max(map(len, names)) > 24:
        return None
    total = sum(chosen.values())
    shares = {name: (chosen[name] / total, right[name] / total) for name in names}
    return _options(f"Options chosen, {':'.join(filter(None, where))}", shares, f"over {total:,} read answers.")


def _options(title: str, shares: Mapping[str, tuple[float, float]], note: str) -> Chart:
    scale = axis([100 * share for pair in shares.values() for share in pair], 0, 260)
    found = []
    for name, (chosen, right) in shares.items():
        at = scale.at(100 * right)
        bar = box(0, -7, scale.at(100 * chosen), 14, ACCENT, fill_opacity=0.55)
        words = f"{name}: chosen {100 * chosen:.1f}, right {100 * right:.1f} percent"
        found.append(Row(name, words, (bar, line(at, -10, at, 10, INK, stroke_width=2))))
    note = f"Bars: how often it is chosen, ticks: how often it is right, in percent {note}"
    return Chart(title, note, rows(title, found, scale, step=26))


def calibration(pairs: Pairs) -> Chart:
    """How often the option chosen is right, by the probability that the model gives it."""
    confidence, right = pairs.T
    # Half-open from above, as the metric `calibration` has them: the two must not disagree.
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    x, y = axis((), 0, 260, limits=(0, 100)), axis((), 260, 0, limits=(0, 100))
    points, dots, error = [], [], 0.0
    most = int(np.bincount(bins).max())
    for number in np.unique(bins):
        mine = bins == number
        sure, often, n = float(confidence[mine].mean()), float(right[mine].mean()), int(mine.sum())
        error += abs(sure - often) * n / len(pairs)
        points.append((x.at(100 * sure), y.at(100 * often)))
        words = f"{100 * sure:.1f} percent sure: {100 * often:.1f} percent right, n={n:,}"
        dots.append(said(words, dot(*points[-1], max(2.5, 11 * (n / most) ** 0.5), ACCENT, fill_opacity=0.75)))
    marks = [
        line(0, 260, 260, 0, MUTED, stroke_dasharray="3,3"),
        polyline(points, ACCENT, stroke_width=1.5, stroke_opacity=0.5),
        *dots,
    ]
    title = "Calibration of the likelihoods"
    note = (
        f"Ten bins of {len(pairs):,} items, area by their number; expected calibration error {100 * error:.1f} points."
    )
    return Chart(title, note, plane(title, x, y, marks, units=("probability of the option chosen", "right")))


def latency(calls: Calls) -> Chart:
    """How long calls took, replica by replica."""
    quantiles = {
        replica: [float(q) for q in np.quantile(found[:, 1], [0.05, 0.25, 0.5, 0.75, 0.95])]
        for replica, found in sorted(calls.items())
    }
    scale = axis([found[-1] for found in quantiles.values()], 0, 300)
    drawn = []
    for replica, found in quantiles.items():
        name, number = replica or "–", len(calls[replica])
        low, first, middle, third, high = map(scale.at, found)
        marks = (
            line(low, 0, high, 0, ACCENT, stroke_opacity=0.5),
            box(first, -6, third - first, 12, ACCENT, fill_opacity=0.4),
            line(middle, -9, middle, 9, INK, stroke_width=2),
        )
        words = f"{name}: median {found[2]:.3g} s, 5th to 95th percentile {found[0]:.3g} to {found[-1]:.3g} s"
        drawn.append(Row(name, f"{words}, n={number:,}", marks, (f"{found[2]:.2f} s", f"n={number:,}")))
    title = "Latency by replica"
    svg = rows(title, drawn, scale, step=28, unit="seconds a call")
    return Chart(title, "Median, middle half, and 5th to 95th percentile.", svg)


def throughput(calls: Calls) -> Chart:
    """Answers a second over the time of the run, replica by replica."""
    ends = {replica: found.sum(axis=1) for replica, found in sorted(calls.items()) if len(found)}
    begin = min(float(found[:, 0].min()) for found in calls.values() if len(found))
    end = max(float(found.max()) for found in ends.values())
    edges = np.linspace(begin, end + 1e-3, _TIME_BINS + 1)
    width = float(edges[1] - edges[0])
    scale, unit = (60.0, "minutes") if end - begin > 300 else (1.0, "seconds")
    rates = {replica or "–": np.histogram(found, edges)[0] / width for replica, found in ends.items()}
    x = axis((), 0, 380, limits=(0, float(edges[-1] - begin) / scale))
    y = axis([float(rate.max()) for rate in rates.values()], 150, 0, ticks=4)
    places = [x.at(float(edge - begin) / scale) for edge in edges]
    key = list(zip(rates, cycle(SERIES), strict=False))
    marks = []
    for (name, colour), rate in zip(key, rates.values(), strict=True):
        steps = [
            (place, y.at(float(value)))
            for first, last, value in zip(places[:-1], places[1:], rate, strict=True)
            for place in (first, last)
        ]
        marks.append(said(name, polyline(steps, colour, stroke_width=1.5)))
    title = "Throughput by replica"
    note = f"{sum(map(len, ends.values())) / max(end - begin, 1e-3):.2f} answers a second over all."
    # Of more series than there are colours, names tell nothing.
    key = key if 1 < len(key) <= len(SERIES) else []
    units = (f"{unit} since the first call", "answers a second")
    return Chart(title, note, plane(title, x, y, marks, units=units, key=key))


def instability(totals: Sequence[Figure], dimensions: Mapping[str, str]) -> list[Chart]:
    """Accuracy against instability, one dot a task: the figures of ReForm-Eval's repeated questions.

    Args:
        totals: The overall figures of a run.
        dimensions: The dimension of each task, as far as tasks have one.
    """
    known = [figure for figure in totals if figure.value is not None]
    unstable = {figure.task: figure for figure in known if "instability" in figure.name.lower()}
    accurate: dict[str, Figure] = {}
    for figure in known:
        if figure.metric == "accuracy":
            accurate.setdefault(figure.task, figure)
    tasks = [task for task in unstable if task in accurate]
    if len(tasks) < 3:
        return []
    names = sorted({dimensions.get(task, "–") for task in tasks})
    colours = dict(zip(names, cycle(SERIES), strict=False))
    places = {
        task: (percent(accurate[task], accurate[task].value) or 0.0, unstable[task].value or 0.0) for task in tasks
    }
    x, y = axis((), 0, 380, limits=(0, 100)), axis([at for _, at in places.values()], 260, 0)
    marks = []
    for task, (across, up) in places.items():
        colour = colours[dimensions.get(task, "–")]
        drawn = [dot(x.at(across), y.at(up), 4.5, colour, fill_opacity=0.8)]
        # Names of more tasks than these would cover each other.
        if len(tasks) <= _MOST_NAMED:
            drawn.append(text(task, x.at(across) + 7, y.at(up), font_size=9, fill=MUTED))
        marks.append(said(f"{task}: accuracy {across:.1f}, instability {up:.3g}", *drawn))
    title = "Accuracy and instability"
    note = "One dot a task. Instability is the spread of answers over repeats: 0 is always the same."
    key = list(colours.items()) if dimensions else []
    return [Chart(title, note, plane(title, x, y, marks, units=("accuracy", "instability"), key=key))]


def dimensions(totals: Sequence[Figure], dimensions: Mapping[str, str]) -> list[Chart]:
    """The mean of the tasks' accuracies in each dimension: every task counts alike, as ReForm-Eval has it."""
    values: dict[str, list[float]] = {}
    seen: set[str] = set()
    for figure in totals:
        if (
            figure.metric == "accuracy"
            and figure.value is not None
            and figure.task in dimensions
            and figure.task not in seen
        ):
            seen.add(figure.task)
            values.setdefault(dimensions[figure.task], []).append(percent(figure, figure.value) or 0.0)
    if len(values) < 3:
        return []
    scale = axis((), 0, 280, limits=(0, 100))
    drawn = []
    for name, found in sorted(values.items()):
        mean, number = float(np.mean(found)), f"{len(found)} tasks"
        marks = (
            box(0, -7, scale.at(mean), 14, ACCENT, fill_opacity=0.4),
            *(dot(scale.at(value), 0, 2.6, SECOND) for value in found),
        )
        drawn.append(Row(name, f"{name}: {mean:.1f}, {number}", marks, (f"{mean:.1f}", number)))
    title = "Accuracy by dimension"
    svg = rows(title, drawn, scale, step=28)
    return [Chart(title, "Bars: mean over the dimension's tasks; dots: the tasks.", svg)]
