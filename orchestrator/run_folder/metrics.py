"""MetricResults as people read them: 24.8 [21.9, 28.0], with their denominators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lyncean.vocabulary.outcomes import ANSWERED, Outcome
from orchestrator.run_folder import tools_used
from orchestrator.run_folder.index import natural_key
from orchestrator.run_folder.validity import no_result, outcomes

OUTCOMES = tuple(str(outcome) for outcome in Outcome)

HIGHER_IS_BETTER = {
    **dict.fromkeys(("accuracy", "mean", "group_all", "consistency", "pass_at", "avg_at", "caption"), True),
    **dict.fromkeys(("choice_bias", "instability", "reform_instability", "calibration"), False),
}
"""Metric -> whether higher is better; unknown for others, such as the rate of an outcome."""

NO_RESULT = "no result"
"""Shown in place of a number that is not a result."""
_NOTHING: Mapping[str, Any] = {
    **dict.fromkeys(("value", "answered", "low", "high")), "level": 0.0, "method": ""
}  # fmt: skip

_PLURAL = frozenset({"groups", "items", "repeats"})
_NAMED = 3
"""Metrics that a line names."""
"""Factors of every standard error; the others are labels."""


class StandardError(NamedTuple):
    """A result's standard error and its parts, as text.

    Attributes:
        parts: Its sources.
        smaller: Its size with more of each factor, the smallest first.
        wider: The interval that is also over other levels of its facets, "" without facets that matter.
    """

    parts: str
    smaller: str
    wider: str


class Band(NamedTuple):
    """Range of a metric that cut answers leave open.

    Attributes:
        whole: The metric over items whose answer is complete; None without any.
        denominator: Number of these items.
        low: The metric over all items if every cut answer were wrong.
        high: The same if every one were right.
    """

    whole: float | None
    denominator: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One line of results.json, read.

    Attributes:
        task: The task it belongs to.
        name: Its name.
        metric: The metric that computed it.
        labels: Its slice, empty for an overall result.
        value: Over all planned; None if it is undefined.
        answered: Over answered items alone.
        low: Lower end of the interval around `value`, in its unit.
        high: Upper end.
        level: The interval's coverage, 0 without one.
        method: How the interval was computed.
        denominator: Divisor of `value`.
        denominator_answered: The same for `answered`.
        unit: "fraction", "percent", "nats" or "".
        details: Further facts that the metric reports.
        cut: Range that cut answers leave open; None if none is cut or the metric is not a mean of scores from 0 to 1.
        void: Why it is not a result, a line; then it has no number. "" where it is one.
    """

    task: str
    name: str
    metric: str
    labels: Mapping[str, str]
    value: float | None
    answered: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    denominator: int
    denominator_answered: int
    unit: str
    details: Mapping[str, Any]
    cut: Band | None = None
    void: str = ""

    @property
    def slice(self) -> str:
        """The slice in words for a table that names its labels, "" for an overall result."""
        return ", ".join(value or "–" for value in self.labels.values())

    @property
    def where(self) -> str:
        """The slice with its labels, "rule=1", which no other slice of the result has; "" for an overall result."""
        return ", ".join(f"{label}={value}" for label, value in self.labels.items())

    def text(self, value: float | None, digits: int = 1) -> str:
        """Returns a value in this result's unit, fractions as percent."""
        if value is None:
            return "–"
        if self.unit == "fraction":
            return f"{100 * value:.{digits}f}"
        return f"{value:.{digits}f}" if self.unit == "percent" else f"{value:.{digits + 2}f}"

    def in_fractions(self, value: float | None) -> float | None:
        """Returns a value of this result with percent as a fraction: the one unit of other tools' logs."""
        return value / 100 if value is not None and self.unit == "percent" else value

    @property
    def failed(self) -> str:
        """Reason that the metric is undefined although items exist, "" if it did not fail."""
        return str(self.details.get("metric_failed", ""))

    @property
    def undefined(self) -> str:
        """The same, or what the metric lacks (a program, a package) to be computed."""
        return self.failed or str(self.details.get("not_computed", ""))

    @property
    def no_interval(self) -> str:
        """Reason that a value has no interval, "" if it has one or the reason is unknown."""
        return str(self.details.get("no_interval", "")) if self.value is not None and self.low is None else ""

    @property
    def interval(self) -> str:
        """The interval in brackets, "" without one."""
        return "" if self.low is None else f"[{self.text(self.low)}, {self.text(self.high)}]"

    @property
    def shown(self) -> str:
        """Value and interval."""
        if self.void:
            return NO_RESULT
        return f"{self.text(self.value)} {self.interval}".rstrip()

    @property
    def standard_error(self) -> StandardError | None:
        """The standard error by its sources; None if the run cannot separate them."""
        error = self.details.get("standard_error")
        if self.void or not isinstance(error, Mapping):
            return None
        parts = [
            f"{part['name']} {self.text(part['error'])}{' (estimated below 0)' if part['negative'] else ''}"
            for part in error["parts"]
        ]
        factors = {source["name"]: source for source in error["factors"]}
        several = {name: name if name in _PLURAL else f"{name}s" for name in factors}
        more = [
            f"{self.text(source['doubled'])} with {math.ceil(source['levels']):,} more {several[name]}"
            for name, source in sorted(factors.items(), key=lambda factor: float(factor[1]["doubled"]))
        ]
        wider = ""
        if "low" in error:
            facets = " and ".join(name for name in several.values() if name not in _PLURAL)
            wider = (
                f"over other {facets} as well: [{self.text(error['low'])}, {self.text(error['high'])}]; "
                f"the interval of all samples is for these {facets} (standard error {self.text(error['interval'])})"
            )
        return StandardError(
            f"of the standard error {self.text(error['total'])}: {', '.join(parts)}",
            f"it would be {', '.join(more)}",
            wider,
        )

    @property
    def less_is_better(self) -> bool:
        """True if small values are known to be the good ones."""
        return not HIGHER_IS_BETTER.get(self.metric, True)

    @property
    def suffix(self) -> str:
        """The unit after the number: "%", "nats" or nothing."""
        return "%" if self.unit in ("fraction", "percent") else self.unit


def metric_results(tasks: Mapping[str, Mapping[str, Any]]) -> Iterator[MetricResult]:
    """Yields the metrics of results.json's `tasks`, in their order; one that is not a result has no number."""
    void = no_result(tasks)
    for result in stored_results(tasks):
        # The share of an outcome describes the requests, even if it says nothing about the model.
        if result.task in void and not (result.metric == "rate" and _any_answer(tasks[result.task])):
            result = replace(result, void=void[result.task], **_NOTHING)
        yield result


def stored_results(tasks: Mapping[str, Mapping[str, Any]]) -> Iterator[MetricResult]:
    """Yields the metrics with their numbers, even if they are not a result: for explanations of a number."""
    for task, results in tasks.items():
        for line in results.get("metrics", ()):
            yield _read(task, line)


def _any_answer(results: Mapping[str, Any]) -> bool:
    total = counts({"": results})
    return any(total[outcome] for outcome in (*ANSWERED, Outcome.REFUSED))


def _read(task: str, line: Mapping[str, Any]) -> MetricResult:
    interval = line.get("interval") or {}
    return MetricResult(
        task=task,
        name=str(line["name"]),
        metric=str(line.get("metric", "")),
        labels=dict(line.get("labels") or {}),
        value=_number(line.get("value")),
        answered=_number(line.get("value_answered")),
        low=float(interval.get("low", 0.0)) if interval else None,
        high=float(interval.get("high", 0.0)) if interval else None,
        level=float(interval.get("level", 0.0)),
        method=str(interval.get("method", "")),
        # proto3 JSON writes 64-bit integers as strings.
        denominator=int(line.get("denominator", 0)),
        denominator_answered=int(line.get("denominator_answered", 0)),
        unit=str(line.get("unit", "")),
        details=line.get("details") or {},
        cut=_band(line["cut"]) if line.get("cut") else None,
    )


def _band(fields: Mapping[str, Any]) -> Band:
    low, high = float(fields["low"]), float(fields["high"])
    return Band(_number(fields.get("whole")), int(fields.get("denominator", 0)), low, high)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def overall(metrics: Iterable[MetricResult]) -> list[MetricResult]:
    """Returns the metrics that are not slices."""
    return [result for result in metrics if not result.labels]


def slices(metrics: Iterable[MetricResult]) -> dict[tuple[str, str, tuple[str, ...]], list[MetricResult]]:
    """Returns the sliced metrics by task, name and the labels that they are sliced by, 9 before 17."""
    tables: dict[tuple[str, str, tuple[str, ...]], list[MetricResult]] = {}
    for result in metrics:
        if result.labels:
            tables.setdefault((result.task, result.name, tuple(result.labels)), []).append(result)
    return {
        key: sorted(rows, key=lambda row: [natural_key(value) for value in row.labels.values()])
        for key, rows in tables.items()
    }


def undefined(metrics: Iterable[MetricResult]) -> list[str]:
    """Returns a line for each metric that says why it is undefined: overall, else in which of its slices."""
    kinds: dict[tuple[str, str], list[MetricResult]] = {}
    for result in metrics:
        if result.undefined:
            kinds.setdefault((result.task, result.name), []).append(result)
    lines = []
    for (task, name), results in kinds.items():
        places = [result.where for result in results if result.labels] if all(r.labels for r in results) else []
        more = f" and {len(places) - 1} more slices" if len(places) > 1 else ""
        lines.append(f"{task}, {name}{f' [{places[0]}]{more}' if places else ''}: {results[0].undefined}")
    return lines


def without_interval(metrics: Iterable[MetricResult]) -> list[str]:
    """Returns a line for each reason why metrics have no interval, which names the first of them."""
    reasons: dict[str, list[str]] = {}
    for result in metrics:
        if reason := result.no_interval:
            where = f" [{result.where}]" if result.labels else ""
            reasons.setdefault(reason, []).append(f"{result.task}, {result.name}{where}")
    return [
        f"{'; '.join(names[:_NAMED])}{f' and {len(names) - _NAMED:,} more' if len(names) > _NAMED else ''}: {reason}"
        for reason, names in reasons.items()
    ]


def counts(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Returns the accounting summed over tasks: planned and the six outcomes."""
    total = dict.fromkeys(("planned", *OUTCOMES), 0)
    for results in tasks.values():
        for name in total:
            total[name] += int(results.get("counts", {}).get(name, 0))
    return total


def unasked(tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the tasks every item of which is rejected: the model was never asked."""
    totals = {task: counts({task: results}) for task, results in tasks.items()}
    return [task for task, total in totals.items() if 0 < total["planned"] == total[Outcome.REJECTED]]


def answered_results(tasks: Mapping[str, Mapping[str, Any]]) -> list[MetricResult]:
    """Returns the metrics that are a result: zeros of nothing must not look like one."""
    return [result for result in metric_results(tasks) if not result.void]


CHANCE = "chance"
"""Key of a task's results: the share of guesses that would be right, if every item is a choice."""


def by_chance(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the accuracy of guesses in percent, for each task of which it is known and an answer was read."""
    known = {
        task: results[CHANCE]
        for task, results in tasks.items()
        if CHANCE in results and results["counts"].get("scored")
    }
    return {task: f"{100 * chance:.1f}" for task, chance in known.items()}


MATTERS_FROM = 1.0
"""Points that errors of reading could hide above which a run reports them: firm readings hide less."""
OFFERED_FROM = 2.0
"""Points that errors of reading could hide above which a run suggests answers that need no reading."""
_READ_BY = {
    "constraint": "read by constraint",
    "rule": "read by rule",
    "second_reader": "read by a judge",
    "doubtful": "doubtful",
    "unparsed": "unparsed",
}


def how_read(tasks: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the points of the worst read task's score that may be parsing errors, as text; "" if too few to matter.

    "About 1.8 points of vstar_bench may be parsing errors [1.4, 2.3]: 40 answers read by rule, 3 doubtful, 2 unparsed".
    A judge's reading errors are not measured here, so the line says that they come on top. A task without a result has
    no score to hide them in.
    """
    void = no_result(tasks)
    read = {task: results["reading"] for task, results in tasks.items() if "reading" in results and task not in void}
    total = {name: sum(int(reading["by"][name]) for reading in read.values()) for name in _READ_BY}
    task, hidden = max(
        ((task, reading["hidden"]) for task, reading in read.items()),
        key=lambda pair: pair[1]["points"],
        default=("", {"points": 0.0}),
    )
    if hidden["points"] < MATTERS_FROM:
        return ""
    parts = [f"{total[name]:,} {source}" for name, source in _READ_BY.items() if total[name]]
    target = task if len(tasks) > 1 else "this score"
    judged = "; a judge's own errors come on top" if total["second_reader"] else ""
    ends = f"[{hidden['low']:.1f}, {hidden['high']:.1f}]"
    return f"About {hidden['points']:.1f} points of {target} may be parsing errors {ends}: {', '.join(parts)}{judged}"


def offered(tasks: Mapping[str, Mapping[str, Any]], results: Mapping[str, Any]) -> str:
    """Returns the line that suggests answers without reading if reading could hide too much; "" if it could not.

    Args:
        tasks: Results by task.
        results: The run's results: with tools there are no such answers.
    """
    if tools_used.FIELD in results:
        return ""
    read = [fields["reading"] for fields in tasks.values() if "reading" in fields]
    if any(reading["by"]["constraint"] for reading in read):
        return ""
    if max((reading["hidden"]["points"] for reading in read), default=0.0) < OFFERED_FROM:
        return ""
    return "--answer constrained holds answers to the options, and needs no parsing"


def accounting(total: Mapping[str, int]) -> str:
    """Returns the accounting line: 3,850 planned = 3,790 scored + 60 unparsed."""
    return f"{total['planned']:,} planned = {outcomes(total, Outcome.SCORED)}"


def headlines(metrics: Iterable[MetricResult]) -> dict[str, MetricResult]:
    """Returns each task's first metric."""
    first: dict[str, MetricResult] = {}
    for result in overall(metrics):
        first.setdefault(result.task, result)
    return first


def markdown_cell(text: str) -> str:
    """Returns a text as a cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
