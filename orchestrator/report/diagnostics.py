"""Diagnostics of a run besides its metrics: option bias, calibration, latency and throughput."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from string import ascii_lowercase

from orchestrator.report import plots
from orchestrator.report.charts import Chart
from orchestrator.run_folder.metrics import MetricResult
from orchestrator.run_folder.reader import Item, epoch

_MOST_BIAS_CHARTS = 6


class Diagnostics:
    """Collects from items what no metric has, and draws it."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._right: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._confidence = plots.Pairs()
        self._calls: dict[str, plots.Pairs] = defaultdict(plots.Pairs)
        self._dimensions: dict[str, str] = {}

    def add(self, item: Item) -> None:
        """Takes one item into account."""
        response = item.response
        if "response" in response and "seconds" in response:
            call = epoch(response.get("started")), float(response["seconds"])
            self._calls[str(response.get("replica", ""))].add(call)
        if "dimension" in (labels := item.labels):
            self._dimensions.setdefault(item.task, labels["dimension"])
        if item.outcome != "scored" or not item.verdict.get("extracted"):
            return
        scoring = item.scoring
        targets, options = scoring.get("targets", ()), scoring.get("options", ())
        if options and len(targets) == 1:
            where = (item.task, str(response.get("turn", "")))
            self._chosen[where][_bare(str(item.verdict["extracted"]))] += 1
            right = str(targets[0])
            if item.verdict.get("rule") == "reform_choice":
                right = _text(right, options)
            self._right[where][_bare(right)] += 1
        probability = (item.verdict.get("scores") or {}).get("probability")
        if probability is not None and item.score is not None:
            self._confidence.add((float(probability), item.score))

    def overview(self, totals: Sequence[MetricResult]) -> list[Chart]:
        """Draws the tasks of a run among each other, where there are several, from its overall metrics."""
        return plots.dimensions(totals, self._dimensions) + plots.instability(totals, self._dimensions)

    def charts(self, totals: Sequence[MetricResult]) -> list[Chart]:
        """Draws how the run went: what was chosen, how sure the model was, how fast it answered."""
        charts: list[Chart] = []
        biases = [metric for metric in totals if metric.metric == "choice_bias" and metric.details.get("chosen")]
        charts += [plots.choice_bias(metric) for metric in biases][:_MOST_BIAS_CHARTS]
        covered = {metric.task for metric in biases}
        pairs = [(where, chosen) for where, chosen in self._chosen.items() if where[0] not in covered]
        bias = [plots.option_bias(where, chosen, self._right[where]) for where, chosen in pairs]
        charts += [chart for chart in bias if chart][:_MOST_BIAS_CHARTS]
        if self._confidence:
            charts.append(plots.calibration(self._confidence))
        if self._calls:
            charts.append(plots.latency(self._calls))
        if throughput := plots.throughput(self._calls):
            charts.append(throughput)
        return charts


def _text(target: str, options: Sequence[str]) -> str:
    """Returns the text of the right option: what reform_choice reads, whose targets are places from 0 or marks."""
    mark = _bare(target)
    if mark == target:
        index = int(target)
    else:
        index = int(mark) - 1 if mark.isdecimal() else ascii_lowercase.index(mark.lower())
    return options[index] if index < len(options) else target


def _bare(option: str) -> str:
    """Returns an option's name without brackets: a key may say "(B)" where an answer is read as "B"."""
    return option[1:-1] if option.startswith("(") and option.endswith(")") else option
