"""Charts of what no metric holds: option bias, calibration, latency, throughput, and tasks among each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle

from lyncean.arrays import Floats, np
from lyncean.columns import Column
from orchestrator.report.charts import Chart, Plane, Row, Rows, axis, percent
from orchestrator.run_folder.metrics import MetricResult

_MOST_OPTIONS = 10
_BINS = 10
_TIME_BINS = 40
_PAUSE_SECONDS = 60.0
_MOST_NAMED = 15
_SERIES = tuple(f"series{number}" for number in range(1, 8))


class Pairs:
    """Pairs of numbers, which of millions lie in a temporary file."""

    def __init__(self, pairs: Iterable[tuple[float, float]] = ()) -> None:
        self._numbers = Column("d")
        for pair in pairs:
            self.add(pair)

    def __len__(self) -> int:
        return len(self._numbers) // 2

    def parts(self) -> Iterator[Floats]:
        """Yields the pairs in their order, some thousands at a time: shape [pairs, 2]."""
        return (np.frombuffer(part).reshape(-1, 2) for part in self._numbers.parts())

    def add(self, pair: tuple[float, float]) -> None:
        """Adds a pair at the end."""
        self._numbers.extend(pair)

    def column(self, which: int) -> Floats:
        """Returns the first (0) or the second (1) number of each pair."""
        numbers, at = np.empty(len(self)), 0
        for some in self.parts():
            numbers[at : at + len(some)] = some[:, which]
            at += len(some)
        return numbers


Calls = Mapping[str, Pairs]
"""Replica -> start (seconds since the epoch, 0 where it is not known) and duration (seconds) of each of its calls."""


def choice_bias(result: MetricResult) -> Chart:
    """The details of the metric choice_bias: how often each option is chosen, and how often it is right."""
    chosen, right = result.details.get("chosen", {}), result.details.get("key", {})
    shares = {name: (float(chosen.get(name, 0)), float(right.get(name, 0))) for name in sorted({*chosen, *right})}
    constant = (
        f" Answers are as good as constant: always {result.details.get('majority')}."
        if result.details.get("constant")
        else ""
    )
    note = f"over {result.denominator_answered or result.denominator:,} read answers.{constant}"
    return _options(f"{result.task}: {result.name}", shares, note)


def option_bias(where: tuple[str, str], chosen: Counter[str], right: Counter[str]) -> Chart | None:
    """Shares of options chosen and options right; None if options are named by their texts."""
    names = sorted(chosen.keys() | right.keys())
    # Texts of options differ from item to item: bias needs a position.
    if not 2 <= len(names) <= _MOST_OPTIONS or max(map(len, names)) > 24:
        return None
    total = sum(chosen.values())
    shares = {name: (chosen[name] / total, right[name] / total) for name in names}
    return _options(f"Options chosen, {':'.join(filter(None, where))}", shares, f"over {total:,} read answers.")


def _options(title: str, shares: Mapping[str, tuple[float, float]], note: str) -> Chart:
    scale = axis([100 * share for pair in shares.values() for share in pair])
    rows = []
    for name, pair in shares.items():
        chosen, right = (f"{100 * share:.1f}" for share in pair)
        bar, tick = (scale.at(100 * share) for share in pair)
        label = f"{name}: chosen {chosen}, right {right} percent"
        rows.append(Row(name, label, (("block", 0, bar), ("tick", tick, tick)), (chosen, right)))
    note = f"Bars: how often it is chosen, ticks: how often it is right, in percent {note}"
    return Chart(title, note, Rows(rows, scale, ("chosen", "right")))


def calibration(pairs: Pairs) -> Chart:
    """Accuracy of the chosen option by the probability that the model gives it."""
    confidence, right = pairs.column(0), pairs.column(1)
    # Bins open below and closed above, like those of the metric `calibration`.
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    scale = axis((), limits=(0, 100))
    points, dots, error = [], [], 0.0
    most = int(np.bincount(bins).max())
    for number in np.unique(bins):
        mine = bins == number
        sure, often, n = float(confidence[mine].mean()), float(right[mine].mean()), int(mine.sum())
        error += abs(sure - often) * n / len(pairs)
        points.append((100 * sure, 100 * often))
        label = f"{100 * sure:.1f} percent sure: {100 * often:.1f} percent right, n={n:,}"
        dots.append(("series1", *points[-1], max(2.5, 11 * (n / most) ** 0.5), label, ""))
    note = (
        f"Ten bins of {len(pairs):,} items, area by their number; expected calibration error {100 * error:.1f} points."
    )
    lines = (("rule", ((0.0, 0.0), (100.0, 100.0))), ("series1", points))
    units = ("probability of the option chosen", "right")
    return Chart("Calibration of the likelihoods", note, Plane(scale, scale, units, lines, dots))


def latency(calls: Calls) -> Chart:
    """Quantiles of the duration of calls, for each replica."""
    quantiles = {
        replica: np.quantile(values.column(1), [0.05, 0.25, 0.5, 0.75, 0.95], overwrite_input=True).tolist()
        for replica, values in sorted(calls.items())
    }
    scale = axis([values[-1] for values in quantiles.values()])
    rows = []
    for replica, values in quantiles.items():
        name, count = replica or "–", f"{len(calls[replica]):,}"
        low, first, middle, third, high = map(scale.at, values)
        marks = (("whisker", low, high), ("block", first, third), ("tick", middle, middle))
        label = f"{name}: median {values[2]:.3g} s, 5th to 95th percentile {values[0]:.3g} to {values[-1]:.3g} s"
        rows.append(Row(name, f"{label}, n={count}", marks, (f"{values[2]:.2f} s", count)))
    layout = Rows(rows, scale, ("median", "n"), "seconds a call")
    return Chart("Latency by replica", "Median, middle half, and 5th to 95th percentile.", layout)


def throughput(calls: Calls) -> Chart | None:
    """Answers a second over the time of the run, replica by replica, without pauses between stop and resume.

    Calls with unknown start are left out; None if fewer than two remain.
    """
    some = {name: pairs for name, pairs in sorted(calls.items()) if any(map(len, map(_started, pairs.parts())))}
    pauses = _Pauses.of(list(some.values()))
    if pauses is None:
        return None
    begin, end = pauses.first, pauses.last - pauses.seconds
    edges = np.linspace(begin, end + 1e-3, _TIME_BINS + 1)
    width = float(edges[1] - edges[0])
    unit_seconds, unit = (60.0, "minutes") if end - begin > 300 else (1.0, "seconds")
    rates = {name or "–": pauses.answers(pairs, edges) / width for name, pairs in some.items()}
    x = axis((), limits=(0, float(edges[-1] - begin) / unit_seconds))
    y = axis([float(rate.max()) for rate in rates.values()], ticks=4)
    legend = list(zip(rates, cycle(_SERIES), strict=False))
    places = [100 * number / _TIME_BINS for number in range(_TIME_BINS + 1)]
    lines = []
    for (_, series), rate in zip(legend, rates.values(), strict=True):
        heights = [y.at(float(value)) for value in rate]
        steps = zip(places[:-1], places[1:], heights, strict=True)
        lines.append((series, [(edge, height) for first, last, height in steps for edge in (first, last)]))
    bands = []
    for number, edge in enumerate(places[:-1]):
        values = ", ".join(f"{name} {rate[number]:.2f}" for name, rate in list(rates.items())[: len(_SERIES)])
        since = float(edges[number] - begin) / unit_seconds
        bands.append((edge, 100 / _TIME_BINS, f"from {since:.3g} {unit}: {values} answers a second"))
    note = f"{pauses.calls / max(end - begin, 1e-3):.2f} answers a second over all."
    note += f" Pauses without calls ({pauses.seconds / 60:,.0f} minutes) are left out." if pauses.seconds else ""
    # Of more series than there are colours, names tell nothing.
    legend = legend if 1 < len(legend) <= len(_SERIES) else []
    units = (f"{unit} since the first call", "answers a second")
    return Chart("Throughput by replica", note, Plane(x, y, units, lines, bands=bands, legend=legend))


@dataclass(frozen=True, slots=True)
class _Pauses:
    """Times in which no call of any replica was in flight, too long for a wait within a run.

    Attributes:
        resumed: When each ended, in order.
        before: The seconds of all pauses before each, and of all.
        calls: How many calls there are.
        first: When the first call began.
        last: When the last call ended.
    """

    resumed: Floats
    before: Floats
    calls: int
    first: float
    last: float

    @classmethod
    def of(cls, calls: Sequence[Pairs]) -> _Pauses | None:
        """Finds them; None where it is known of fewer than two calls when they began."""
        # In place: of millions of calls every column counts.
        starts, ends = np.empty(total := sum(map(len, calls))), np.empty(total)
        known = 0
        for started in map(_started, chain.from_iterable(pairs.parts() for pairs in calls)):
            starts[known : known + len(started)] = started[:, 0]
            np.add(started[:, 0], started[:, 1], out=ends[known : known + len(started)])
            known += len(started)
        if known < 2:
            return None
        starts, ends = starts[:known], ends[:known]
        starts.sort()
        ends.sort()
        first, last = float(starts[0]), float(ends[-1])
        # A gap between the i-th end and the start of call i + 1 means that no call was in flight.
        gaps = np.subtract(starts[1:], ends[:-1], out=ends[:-1])
        after_pause = np.flatnonzero(gaps > _PAUSE_SECONDS)
        return cls(starts[1:][after_pause], np.append(0.0, np.cumsum(gaps[after_pause])), known, first, last)

    @property
    def seconds(self) -> float:
        """Of all pauses."""
        return float(self.before[-1])

    def answers(self, calls: Pairs, edges: Floats) -> Floats:
        """Returns how many calls end in each bin, each call moved forward by the pauses before it."""
        counts = np.zeros(len(edges) - 1)
        for some in map(_started, calls.parts()):
            ends = some.sum(axis=1) - self.before[np.searchsorted(self.resumed, some[:, 0], side="right")]
            counts += np.histogram(ends, edges)[0]
        return counts


def _started(calls: Floats) -> Floats:
    """Returns the calls of which it is known when they began: of most runs all, and no copy."""
    known = calls[:, 0] > 0
    return calls if known.all() else calls[known]


def _accuracies(totals: Sequence[MetricResult]) -> dict[str, float]:
    """Returns the first accuracy of each task, in percent."""
    accuracies: dict[str, float] = {}
    for result in totals:
        if result.metric == "accuracy" and result.value is not None:
            accuracies.setdefault(result.task, percent(result, result.value) or 0.0)
    return accuracies


def instability(totals: Sequence[MetricResult], dimensions: Mapping[str, str]) -> list[Chart]:
    """Accuracy against instability of ReForm-Eval's repeated questions, one dot a task, coloured by dimension."""
    accuracies = _accuracies(totals)
    unstable = {
        result.task: result.value
        for result in totals
        if result.value is not None and "instability" in result.name.lower() and result.task in accuracies
    }
    if len(unstable) < 3:
        return []
    names = sorted({dimensions.get(task, "–") for task in unstable})
    series = dict(zip(names, cycle(_SERIES), strict=False))
    x, y = axis((), limits=(0, 100)), axis(unstable.values())
    dots = []
    for task, value in unstable.items():
        text = f"{task}: accuracy {accuracies[task]:.1f}, instability {value:.3g}"
        # Names of more tasks than these would cover each other.
        label = task if len(unstable) <= _MOST_NAMED else ""
        dots.append((series[dimensions.get(task, "–")], x.at(accuracies[task]), y.at(value), 4.5, text, label))
    note = "One dot a task. Instability is the spread of answers over repeats: 0 is always the same."
    legend = list(series.items()) if dimensions else []
    plane = Plane(x, y, ("accuracy", "instability"), dots=dots, legend=legend)
    return [Chart("Accuracy and instability", note, plane)]


def dimensions(totals: Sequence[MetricResult], dimensions: Mapping[str, str]) -> list[Chart]:
    """The mean of the tasks' accuracies in each dimension: every task counts alike, as ReForm-Eval has it."""
    values: dict[str, list[float]] = {}
    for task, value in _accuracies(totals).items():
        if task in dimensions:
            values.setdefault(dimensions[task], []).append(value)
    if len(values) < 3:
        return []
    scale = axis((), limits=(0, 100))
    rows = []
    for name, accuracies in sorted(values.items()):
        mean = float(np.mean(accuracies))
        marks = [("block", 0.0, mean), *(("dot small", value, value) for value in accuracies)]
        label = f"{name}: {mean:.1f}, {len(accuracies)} tasks"
        rows.append(Row(name, label, marks, (f"{mean:.1f}", str(len(accuracies)))))
    layout = Rows(rows, scale, ("mean", "tasks"))
    return [Chart("Accuracy by dimension", "Bars: mean over the dimension's tasks; dots: the tasks.", layout)]
