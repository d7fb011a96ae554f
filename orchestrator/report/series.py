"""The page of trainings: every task's metric by step, alarms, noise, and the items that changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from orchestrator.compare.curve import Curve, Line, Point, Training, curves
from orchestrator.compare.flips import words as answer_text
from orchestrator.compare.series import Change
from orchestrator.report.charts import Axis, axis
from orchestrator.report.packing import question, snippet
from orchestrator.report.page import document, relative_address
from orchestrator.run_folder.durable import write_file
from orchestrator.run_folder.metrics import MetricResult
from orchestrator.suite.training import PAGE

MOST = 10
"""Items that became worse that are shown for two checkpoints, and as many that became better."""
_MOST_IN_ALL = 20_000
"""Items on a page, so that a browser opens it; at least one better and one worse item of two checkpoints is shown."""
_COLOURS = 7


@dataclass(frozen=True, slots=True)
class Dot:
    """A checkpoint in a chart: its position (percent from the left and from the top), and its description."""

    x: float
    y: float
    words: str
    href: str
    alarm: bool


@dataclass(frozen=True, slots=True)
class Series:
    """A training in a chart.

    Attributes:
        colour: Its CSS class.
        path: The line, as an SVG path in percent.
        band: The intervals, as an SVG path in percent; "" without one.
        fixed: Position of the fixed baseline in percent from the top, None without one.
        fixed_words: Description of the fixed baseline.
    """

    name: str
    colour: str
    path: str
    band: str
    dots: Sequence[Dot]
    fixed: float | None
    fixed_words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One task's chart: its scales and all trainings."""

    x: Axis
    y: Axis
    unit: str
    series: Sequence[Series]

    @property
    def banded(self) -> bool:
        """True if any training has intervals."""
        return any(one.band for one in self.series)

    @property
    def alarmed(self) -> bool:
        """True if any checkpoint has an alarm."""
        return any(dot.alarm for one in self.series for dot in one.dots)


@dataclass(frozen=True, slots=True)
class Changed:
    """An item that two checkpoints score differently."""

    key: str
    question: str
    target: str
    before: str
    after: str
    gained: bool


@dataclass(frozen=True, slots=True)
class Flipped:
    """The items that changed between two checkpoints.

    Attributes:
        anchor: Its anchor on the page.
        href: Address of the page that compares both runs item by item, "" for none.
        items: The first of them.
    """

    anchor: str
    href: str
    items: Sequence[Changed]


@dataclass(frozen=True, slots=True)
class Section:
    """One task of the page: its chart, and each training's checkpoints with the items that changed between them.

    Attributes:
        chart: The chart, None if no checkpoint has a value.
        flipped: The changed items by training and step.
    """

    anchor: str
    curve: Curve
    chart: Chart | None
    flipped: Mapping[tuple[str, int], Flipped]


def render(
    trainings: Sequence[Training],
    addresses: Mapping[Path, str],
    *,
    names: Mapping[Path, str] | None = None,
    home: str = "",
    others: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the page.

    Args:
        trainings: The trainings, all on one axis.
        addresses: Run folder -> address of its report.
        names: Run folder -> its name on the page that compares two runs; None without such a page.
        home: Address of the list of runs, "" for none.
        others: Name and address of the pages with one training more, or one training less.
    """
    per_task = curves(trainings)
    several = len(trainings) > 1
    colours = {training.name: f"series{number % _COLOURS + 1}" for number, training in enumerate(trainings)}
    pairs = sum(point.flips is not None for curve in per_task for line in curve.lines for point in line.points)
    most = min(MOST, max(1, _MOST_IN_ALL // (2 * max(1, pairs))))
    sections = [
        Section(f"task-{number}", curve, _chart(curve, addresses, colours), _flipped(number, curve, names or {}, most))
        for number, curve in enumerate(per_task)
    ]
    return document(
        "series.html",
        trainings=trainings,
        colours=colours,
        sections=sections,
        several=several,
        addresses=addresses,
        changes=[(training, change) for training in trainings for change in training.changes],
        unjudged=[(training, why) for training in trainings for why in training.unjudged],
        baseline_words=_baseline,
        points=signed_points,
        alarms_at=alarms_at,
        home=home,
        others=others,
        most=most,
    )


def save(training: Training, folder: Path) -> Path:
    """Writes series.html into a suite's folder and returns its path.

    Raises:
        RunWriteError: It cannot be written.
    """
    path = folder / PAGE
    write_file(path, render([training], beside([training], folder)).encode())
    return path


def beside(trainings: Sequence[Training], folder: Path) -> dict[Path, str]:
    """Returns the address of each run's report relative to a page in a folder."""
    sources = [source for training in trainings for source in training.sources]
    return {source.path: f"{relative_address(source.path, folder)}report.html" for source in sources}


def signed_points(value: float) -> str:
    """Returns a change in points with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def _baseline(training: Training) -> str:
    names = {"previous": "the checkpoint before", "best": "the best checkpoint before"}
    return names.get(training.baseline, training.baseline)


def _flipped(number: int, curve: Curve, names: Mapping[Path, str], most: int) -> dict[tuple[str, int], Flipped]:
    """Returns the items that changed between the checkpoints of a task, by training and step."""
    return {
        (line.training.name, point.step): Flipped(
            f"task-{number}-{at}-{point.step}", _comparison(point, names), _changed(point, most)
        )
        for at, line in enumerate(curve.lines)
        for point in line.points
        if point.flips
    }


def _comparison(point: Point, names: Mapping[Path, str]) -> str:
    """Returns the address of the comparison of a checkpoint with the one before, "" if there is none."""
    pair = [names.get(run.path, "") for run in (point.flips.first, point.flips.second)] if point.flips else []
    return f"/compare/?{urlencode({'run': pair}, doseq=True)}" if pair and all(pair) else ""


def _changed(point: Point, most: int) -> list[Changed]:
    if point.flips is None:
        return []
    return [
        Changed(
            flip.first.key,
            question(flip.second)[0] or "",
            snippet(flip.target),
            snippet(answer_text(flip.first)),
            snippet(answer_text(flip.second)),
            flip.gained,
        )
        for flip in point.flips.read(most)
    ]


def _chart(curve: Curve, addresses: Mapping[Path, str], colours: Mapping[str, str]) -> Chart | None:
    """Returns a task's chart, None if no checkpoint has a value."""
    known = [point for line in curve.lines for point in line.known]
    if not known:
        return None
    metrics = [point.metric for point in known if point.metric]
    fixed = [line.fixed for line in curve.lines if line.fixed]
    ends = [end for metric in [*metrics, *fixed] for end in _ends(metric)]
    x = _steps([point.step for point in known])
    y = _values(ends, share=metrics[0].unit in ("fraction", "percent"))
    series = [
        Series(
            line.training.name,
            colours[line.training.name],
            _path([(x.at(p.step), 100 - y.at(_shown(p.metric.value, p.metric))) for p in line.known if p.metric]),
            _band(line, x, y),
            [_dot(line, point, point.metric, x, y, addresses) for point in line.known if point.metric],
            100 - y.at(_shown(line.fixed.value, line.fixed)) if line.fixed else None,
            f"{line.training.baseline}: {line.fixed.shown}{line.fixed.suffix}" if line.fixed else "",
        )
        for line in curve.lines
        if line.known
    ]
    return Chart(x, y, metrics[0].suffix, series)


def _shown(value: float | None, metric: MetricResult) -> float:
    """Returns a value as drawn: fractions in percent."""
    return (value or 0.0) * (100 if metric.unit == "fraction" else 1)


def _ends(metric: MetricResult) -> list[float]:
    return [_shown(end, metric) for end in (metric.low, metric.value, metric.high) if end is not None]


def _steps(steps: Sequence[int]) -> Axis:
    low, high = min(steps), max(steps)
    return axis((), ticks=5, limits=(low, high) if low < high else (low - 1, high + 1))


def _values(ends: Sequence[float], *, share: bool) -> Axis:
    """Returns a scale of round numbers around all ends; shares stay within 0 and 100."""
    low, high = min(ends), max(ends)
    room = max(high - low, 1e-6 * max(abs(low), abs(high)), 1e-9)
    step = axis((), limits=(0, room)).step
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    if share:
        low, high = max(0.0, low), min(100.0, high)
    return axis((), limits=(low, high if high > low else low + step))


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in places)


def _band(line: Line, x: Axis, y: Axis) -> str:
    """Returns the area between the ends of the intervals; a checkpoint without one divides it."""
    pieces: list[list[tuple[float, float, float]]] = [[]]
    for point in line.known:
        metric = point.metric
        if metric is None or metric.low is None or metric.high is None:
            pieces.append([])
            continue
        low, high = (100 - y.at(_shown(end, metric)) for end in (metric.low, metric.high))
        pieces[-1].append((x.at(point.step), low, high))
    drawn = [[(at, high) for at, _, high in piece] + [(at, low) for at, low, _ in reversed(piece)] for piece in pieces]
    return "".join(f"{_path(piece)}Z" for piece in drawn if len(piece) > 2)


def _dot(line: Line, point: Point, metric: MetricResult, x: Axis, y: Axis, addresses: Mapping[Path, str]) -> Dot:
    alarms = alarms_at(line.training, point)
    lines = [f"{line.training.name}, step {point.step:,}: {metric.shown}{metric.suffix}, n {metric.denominator:,}"]
    if point.change:
        lines.append(f"{signed_points(point.change.difference)} to the checkpoint before")
    lines += [f"alarm: {change.why}" for change in alarms]
    return Dot(
        x.at(point.step),
        100 - y.at(_shown(metric.value, metric)),
        "\n".join(lines),
        addresses.get(point.source.path, ""),
        bool(alarms),
    )


def alarms_at(training: Training, point: Point) -> list[Change]:
    """Returns the alarms of a checkpoint in the variant of its run."""
    at = (point.source.model, point.source.variant)
    return [change for change in training.changes if change.alarm and (change.model, change.variant) == at]
