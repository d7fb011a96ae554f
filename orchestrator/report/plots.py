"""Charts of what is no figure: option bias, calibration, latency, throughput, and tasks among each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.charts import ACCENT, INK, LINE, MUTED, SECOND, SERIES, Chart, Spec, draw
from orchestrator.report.figures import Figure

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
    data = [{"option": name, "chosen": 100 * chosen, "right": 100 * right} for name, (chosen, right) in shares.items()]
    y: Spec = {"field": "option", "type": "nominal", "title": None, "sort": None}
    x: Spec = {"type": "quantitative", "title": None, "axis": {"tickCount": 5}, "scale": {"zero": True}}
    spec: Spec = {
        "data": {"values": data},
        "width": 260,
        "height": {"step": 26},
        "layer": [
            {
                "mark": {"type": "bar", "color": ACCENT, "opacity": 0.55, "height": 14},
                "encoding": {"y": y, "x": {**x, "field": "chosen"}},
            },
            {
                "mark": {"type": "tick", "color": INK, "thickness": 2, "size": 20},
                "encoding": {"y": y, "x": {**x, "field": "right"}},
            },
        ],
    }
    return Chart(title, f"Bars: how often it is chosen, ticks: how often it is right, in percent {note}", draw(spec))


def calibration(pairs: Pairs) -> Chart:
    """How often the option chosen is right, by the probability that the model gives it."""
    confidence, right = pairs.T
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    data, error = [], 0.0
    for number in np.unique(bins):
        mine = bins == number
        point = {"confidence": float(confidence[mine].mean()), "right": float(right[mine].mean()), "n": int(mine.sum())}
        error += abs(point["confidence"] - point["right"]) * point["n"] / len(pairs)
        data.append({**point, "confidence": 100 * point["confidence"], "right": 100 * point["right"]})
    scale = {"domain": [0, 100]}
    diagonal: Spec = {
        "data": {"values": [{"x": 0, "y": 0}, {"x": 100, "y": 100}]},
        "mark": {"type": "line", "color": MUTED, "strokeDash": [3, 3], "strokeWidth": 1},
        "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
    }
    place: Spec = {
        "x": {
            "field": "confidence",
            "type": "quantitative",
            "scale": scale,
            "title": "probability of the option chosen",
        },
        "y": {"field": "right", "type": "quantitative", "scale": scale, "title": "right"},
    }
    size: Spec = {"field": "n", "type": "quantitative", "legend": None, "scale": {"range": [20, 400], "zero": True}}
    points: Spec = {"mark": {"type": "circle", "color": ACCENT, "opacity": 0.75}, "encoding": {**place, "size": size}}
    line: Spec = {"mark": {"type": "line", "color": ACCENT, "opacity": 0.5}, "encoding": place}
    spec = {"data": {"values": data}, "width": 260, "height": 260, "layer": [diagonal, line, points]}
    note = (
        f"Ten bins of {len(pairs):,} items, area by their number; expected calibration error {100 * error:.1f} points."
    )
    return Chart("Calibration of the likelihoods", note, draw(spec))


def latency(calls: Calls) -> Chart:
    """How long calls took, replica by replica."""
    data = []
    for replica, found in sorted(calls.items()):
        low, first, middle, third, high = np.quantile(found[:, 1], [0.05, 0.25, 0.5, 0.75, 0.95])
        data.append(
            {
                "replica": replica or "–",
                "low": low,
                "first": first,
                "middle": middle,
                "third": third,
                "high": high,
                "text": f"{middle:.2f} s",
                "n": f"n={len(found):,}",
            }
        )
    y: Spec = {"field": "replica", "type": "nominal", "title": None}
    x: Spec = {
        "type": "quantitative",
        "title": "seconds a call",
        "scale": {"zero": True, "range": [0, 300]},
        "axis": {"tickCount": 5},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "color": ACCENT, "opacity": 0.5},
            "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "bar", "color": ACCENT, "opacity": 0.4, "height": 12},
            "encoding": {"y": y, "x": {**x, "field": "first"}, "x2": {"field": "third"}},
        },
        {
            "mark": {"type": "tick", "color": INK, "thickness": 2, "size": 18},
            "encoding": {"y": y, "x": {**x, "field": "middle"}},
        },
        {
            "mark": {"type": "text", "align": "right", "fontWeight": 600},
            "encoding": {"y": y, "x": {"value": 354}, "text": {"field": "text"}},
        },
        {
            "mark": {"type": "text", "align": "right", "fill": MUTED},
            "encoding": {"y": y, "x": {"value": 420}, "text": {"field": "n"}},
        },
    ]
    spec = {"data": {"values": data}, "width": 420, "height": {"step": 28}, "layer": layers}
    return Chart(
        "Latency by replica",
        "Median, middle half, and 5th to 95th percentile.",
        draw(spec),
    )


def throughput(calls: Calls) -> Chart:
    """Answers a second over the time of the run, replica by replica."""
    ends = {replica: found.sum(axis=1) for replica, found in calls.items() if len(found)}
    begin = min(float(found[:, 0].min()) for found in calls.values() if len(found))
    end = max(float(found.max()) for found in ends.values())
    edges = np.linspace(begin, end + 1e-3, _TIME_BINS + 1)
    width = float(edges[1] - edges[0])
    scale, unit = (60.0, "minutes") if end - begin > 300 else (1.0, "seconds")
    data = [
        {"replica": replica or "–", "at": (float(edge) - begin) / scale, "rate": int(number) / width}
        for replica, found in sorted(ends.items())
        for edge, number in zip(edges[:-1], np.histogram(found, edges)[0], strict=True)
    ]
    colour: Spec = {"field": "replica", "type": "nominal", "scale": {"range": list(SERIES)}, "title": None}
    colour["legend"] = {"orient": "top"} if len(ends) > 1 else None
    spec = {
        "data": {"values": data},
        "width": 380,
        "height": 150,
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {
                "field": "at",
                "type": "quantitative",
                "title": f"{unit} since the first call",
                "axis": {"grid": False},
            },
            "y": {"field": "rate", "type": "quantitative", "title": "answers a second", "axis": {"tickCount": 4}},
            "color": colour,
        },
    }
    return Chart(
        "Throughput by replica",
        f"{sum(map(len, ends.values())) / max(end - begin, 1e-3):.2f} answers a second over all.",
        draw(spec),
    )


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
    data = [
        {
            "task": task,
            "dimension": dimensions.get(task, "–"),
            "x": 100 * (accurate[task].value or 0),
            "y": unstable[task].value,
        }
        for task in tasks
    ]
    place: Spec = {
        "x": {"field": "x", "type": "quantitative", "title": "accuracy", "scale": {"domain": [0, 100]}},
        "y": {"field": "y", "type": "quantitative", "title": "instability"},
    }
    colour: Spec = {"field": "dimension", "type": "nominal", "scale": {"range": list(SERIES)}, "title": None}
    colour["legend"] = {"orient": "right"} if dimensions else None
    layers: list[Spec] = [
        {"mark": {"type": "circle", "size": 60, "opacity": 0.8}, "encoding": {**place, "color": colour}},
    ]
    # Names of more tasks than these would cover each other.
    if len(tasks) <= _MOST_NAMED:
        text: Spec = {"type": "text", "align": "left", "dx": 7, "fontSize": 9, "fill": MUTED}
        layers.append({"mark": text, "encoding": {**place, "text": {"field": "task"}}})
    spec = {"data": {"values": data}, "width": 380, "height": 260, "layer": layers}
    note = "One dot a task. Instability is the spread of answers over repeats: 0 is always the same."
    return [Chart("Accuracy and instability", note, draw(spec))]


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
            values.setdefault(dimensions[figure.task], []).append(100 * figure.value)
    if len(values) < 3:
        return []
    data = [
        {"dimension": name, "mean": float(np.mean(found)), "text": f"{np.mean(found):.1f}", "n": f"{len(found)} tasks"}
        for name, found in sorted(values.items())
    ]
    tasks = [{"dimension": name, "value": value} for name, found in values.items() for value in found]
    y: Spec = {"field": "dimension", "type": "nominal", "title": None, "sort": None}
    x: Spec = {"type": "quantitative", "title": None, "scale": {"domain": [0, 100], "range": [0, 280]}}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "color": ACCENT, "opacity": 0.4, "height": 14},
            "encoding": {"y": y, "x": {**x, "field": "mean"}},
        },
        {
            "data": {"values": tasks},
            "mark": {"type": "circle", "color": SECOND, "size": 22},
            "encoding": {"y": y, "x": {**x, "field": "value"}},
        },
        {
            "mark": {"type": "text", "align": "right", "fontWeight": 600},
            "encoding": {"y": y, "x": {"value": 326}, "text": {"field": "text"}},
        },
        {
            "mark": {"type": "text", "align": "right", "fill": MUTED},
            "encoding": {"y": y, "x": {"value": 390}, "text": {"field": "n"}},
        },
        {
            "data": {"values": [{"v": 0}]},
            "mark": {"type": "rule", "color": LINE},
            "encoding": {"x": {**x, "field": "v"}},
        },
    ]
    spec = {"data": {"values": data}, "width": 400, "height": {"step": 28}, "layer": layers}
    return [Chart("Accuracy by dimension", "Bars: mean over the dimension's tasks; dots: the tasks.", draw(spec))]
