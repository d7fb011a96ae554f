"""A paper's table made of our own runs: our cells beside the printed ones, and the contrasts of the paper."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from statistics import correlation
from typing import Any, TypeVar

from orchestrator.benchmarks.reform.datasets import DATASETS, SINGLE_CHOICE
from orchestrator.benchmarks.reform.ranks import Standing, scores_of, standings
from orchestrator.compare import scores, statistics
from orchestrator.compare.contrasts import Contrast
from orchestrator.compare.rows import matched
from orchestrator.papers.cells import SYNTHETIC, other_rows
from orchestrator.papers.suites import Runs
from orchestrator.papers.tables import MEAN_OF_OTHERS, TRUNCATED, Column, Paper, Table
from orchestrator.run_folder.labels import error_kinds
from orchestrator.run_folder.metrics import MetricResult, metric_results
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.usage import USAGE

FEW = 5.0
"""Points to either side within which an interval has to lie to say that two numbers agree."""


class Verdict(StrEnum):
    """Comparison of our cell with the printed one."""

    AGREES = "agrees"
    DIFFERS = "differs"
    TOO_FEW = "too few to tell"
    OTHER = "not compared"
    MISSING = "missing"
    NOTHING = ""


_OF_NUMBERS = (Verdict.AGREES, Verdict.DIFFERS, Verdict.TOO_FEW)


@dataclass(frozen=True, slots=True)
class Cell:
    """One of our cells.

    Attributes:
        value: In percent where the metric is a share, else in its own unit; None where it is missing.
        low: Lower end of its 95% interval, None without one.
        n: What it is divided by, 0 where nothing says.
        printed: The paper's cell of the same model, None without one.
        why: Why it is missing although its run is there, as far as the run says.
    """

    column: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    printed: float | None = None
    verdict: Verdict = Verdict.NOTHING
    why: str = ""


@dataclass(frozen=True, slots=True)
class Paired:
    """Two of the paper's runs, item by item, beside the difference of the printed cells.

    Attributes:
        printed: Second minus first in points; None without both cells of the model.
    """

    contrast: Contrast
    printed: float | None
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Returns the contrast for machines."""
        return {**self.contrast.as_json(), "printed": self.printed, "verdict": self.verdict}


_Judged = TypeVar("_Judged", Cell, Paired)


@dataclass(frozen=True, slots=True)
class Remade:
    """A table with our rows.

    Attributes:
        rows: Model -> its cells.
        contrasts: Pairs of the paper's runs, item by item, by model.
        missing: What is not there, and why.
        others: Models with rows that are not the paper's, and which.
    """

    paper: Paper
    table: Table
    rows: Mapping[str, Sequence[Cell]]
    contrasts: Sequence[Paired]
    missing: Sequence[str]
    others: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Returns the table for machines."""
        return {
            "paper": self.paper.name,
            "arxiv": self.paper.arxiv,
            "table": self.table.id,
            "title": self.table.title,
            "source": self.paper.cited(self.table),
            "columns": [column.name for column in self.table.columns],
            "printed": {model: list(cells) for model, cells in self.table.rows.items()},
            "ours": {model: [asdict(cell) for cell in cells] for model, cells in self.rows.items()},
            "contrasts": [contrast.as_json() for contrast in self.contrasts],
            "missing": list(self.missing),
            "other_rows": dict(self.others),
        }


def remake(paper: Paper, table: Table, runs: Runs) -> Remade:
    """Returns a table made of the runs that are there."""
    rows: dict[str, list[Cell]] = {}
    if any(column.measure != "correlation" and column.runs for column in table.columns):
        places = range(len(table.columns))
        rows = {model: [_cell(paper, table, at, model, runs) for at in places] for model in runs.models}
    if runs.models and any(column.measure == "correlation" for column in table.columns):
        rows[f"{len(runs.models)} models"] = _correlations(paper, table, runs)
    missing = [*runs.missing]
    for model, cells in rows.items():
        by_reason: dict[str, list[str]] = {}
        for cell in cells:
            if cell.value is None and _makes(table, cell.column, alone=model in runs.models):
                by_reason.setdefault(cell.why, []).append(cell.column)
        missing += [": ".join(filter(None, [model, ", ".join(names), why])) for why, names in by_reason.items()]
    missing += _dimensions(paper, table, runs)
    printed_rows = [
        _beside_printed(table, one)
        for model in runs.models
        for pair in table.contrasts
        if (one := _contrast(paper, table, pair, model, runs))
    ]
    others = _others(runs)
    for model in (model for model, reason in others.items() if SYNTHETIC in reason):
        rows[model] = [_uncompared(cell) for cell in rows.get(model, ())]
        printed_rows = [_uncompared(one) if one.contrast.model == model else one for one in printed_rows]
    return Remade(paper, table, rows, printed_rows, missing, others)


def _others(runs: Runs) -> dict[str, str]:
    """Returns the models whose runs have other rows than the paper's, each with what they have."""
    reasons: dict[str, dict[str, None]] = {}
    for (model, _), run in runs.found.items():
        for reason in other_rows(run):
            reasons.setdefault(model, {})[reason] = None
    return {model: ", ".join(texts) for model, texts in reasons.items()}


def _uncompared(one: _Judged) -> _Judged:
    return replace(one, verdict=Verdict.OTHER) if one.verdict in _OF_NUMBERS else one


def _dimensions(paper: Paper, table: Table, runs: Runs) -> list[str]:
    """Returns lines for averages over fewer of ReForm-Eval's dimensions or data sets than the paper's."""
    lines = []
    for column in (column for column in table.columns if column.measure == "average"):
        name = column.runs[0]
        wanted = _wanted(paper, name)
        for model in runs.models:
            if (run := runs.found.get((model, name))) is None:
                continue
            there = wanted.keys() & scores_of(run.results).keys()
            dimensions = len({wanted[task] for task in there}), len({*wanted.values()})
            counts = [(*dimensions, "dimensions"), (len(there), len(wanted), "data sets")]
            if less := ", ".join(f"{few} of {many} {unit}" for few, many, unit in counts if few < many):
                lines.append(f"{model}: {column.name} is over {less}")
    return lines


def _wanted(paper: Paper, name: str) -> Mapping[str, str]:
    """Returns the data sets of a run's averages with their dimensions: by likelihood not those that are generated."""
    likelihood = paper.runs[name].options.get("method") == "likelihood"
    sets = DATASETS.items()
    return {task: kind.dimension for task, kind in sets if not likelihood or kind.formulations[0] == SINGLE_CHOICE}


def _standings(paper: Paper, name: str, runs: Runs) -> Mapping[str, Standing]:
    """Returns the means and ranks of all models that made a run of ReForm-Eval."""
    wanted = _wanted(paper, name)
    scores = {model: scores_of(run.results) for (model, of), run in runs.found.items() if of == name}
    return standings({model: {task: one[task] for task in one if task in wanted} for model, one in scores.items()})


def _makes(table: Table, name: str, *, alone: bool) -> bool:
    """Returns whether a column is made of our runs: of one model's, or of all models' together."""
    columns = (column for column in table.columns if column.name == name)
    return any((column.runs or column.of) and alone == (column.measure != "correlation") for column in columns)


def published_row(table: Table, model: str) -> Sequence[float | None]:
    """Returns the printed cells of a model, matched by letters and digits of its name; empty if it has none."""
    return next((cells for name, cells in table.rows.items() if _plain(name) == _plain(model)), ())


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _cell(paper: Paper, table: Table, at: int, model: str, runs: Runs) -> Cell:
    column = table.columns[at]
    row = published_row(table, model)
    printed = row[at] if row else None
    measured = _measured(paper, column, model, runs)
    if isinstance(measured, float):
        return Cell(column.name, measured, printed=printed)
    if measured is None or measured.value is None or measured.void:
        why = measured.void if measured else ""
        return Cell(column.name, printed=printed, verdict=Verdict.MISSING if column.runs else Verdict.NOTHING, why=why)
    scale = 100 if measured.unit == "fraction" else 1
    value, low, high = (
        None if number is None else scale * number for number in (measured.value, measured.low, measured.high)
    )
    cell = Cell(column.name, value, low, high, measured.denominator, printed)
    return replace(cell, verdict=judge(table, column, cell))


def _measured(paper: Paper, column: Column, model: str, runs: Runs) -> MetricResult | float | None:
    """Returns what a column is of a model's run: a metric's result, or a number without an interval."""
    name = _chosen(paper, column, model, runs)
    run = runs.found.get((model, name))
    if run is None:
        return None
    task = paper.runs[name].task
    if column.measure in ("average", "rank"):
        standing = _standings(paper, name, runs)[model]
        return standing.average if column.measure == "average" else standing.average_rank
    if column.measure == "kind":
        return _share_of_kind(run, task, column.of[0])
    if column.measure == "tokens":
        used = ((run.results.get(USAGE) or {}).get("tasks") or {}).get(task) or {}
        metric = _metric(run.tasks_and_groups, task, "", {})
        return float(used["output_tokens"]) / metric.denominator if used and metric else None
    return _metric(run.tasks_and_groups, task, column.metric, column.labels)


def _share_of_kind(run: Run, task: str, kind: str) -> MetricResult | None:
    kinds = next((one for one in error_kinds(run) if one.task == task), None)
    if kinds is None:
        return None
    share, interval = kinds.shares.get(kind, 0.0), kinds.interval(kind)
    return MetricResult(
        task, kind, "kind", {}, share, share, *interval, 0.95, "wilson", kinds.answers, kinds.answers, "fraction", {}
    )


def _chosen(paper: Paper, column: Column, model: str, runs: Runs) -> str:
    """Returns the run that a column is of; of several the one with the best overall result."""
    there = [name for name in column.runs if (model, name) in runs.found]
    if len(column.runs) < 2 or not there:
        return next(iter(column.runs), "")

    def overall(name: str) -> float:
        metric = _metric(runs.found[model, name].tasks_and_groups, paper.runs[name].task, column.metric, {})
        return metric.value if metric and metric.value is not None else -math.inf

    return max(there, key=overall)


def _metric(
    tasks: Mapping[str, Mapping[str, Any]], task: str, name: str, labels: Mapping[str, str]
) -> MetricResult | None:
    """Returns a task's metric over a slice, its first one where `name` is ""."""
    every = (metric for metric in metric_results({task: tasks[task]} if task in tasks else {}))
    return next((one for one in every if name in ("", one.name) and one.labels == labels), None)


def judge(table: Table, column: Column, cell: Cell) -> Verdict:
    """Returns what a cell of ours says of the printed one.

    Cells agree where our count of the same items is printed as the paper's, or where the printed value lies within our
    95% interval and that within `FEW` points to either side; outside the interval they differ.
    """
    if cell.printed is None or cell.value is None:
        return Verdict.NOTHING
    if not table.comparable:
        return Verdict.OTHER
    if cell.n == column.n and _as_printed(cell.value, column, table.digits, cell.printed):
        return Verdict.AGREES
    if cell.low is None or cell.high is None:
        return Verdict.TOO_FEW
    slack = 10.0**-table.digits
    if not cell.low - slack <= cell.printed <= cell.high + slack:
        return Verdict.DIFFERS
    return Verdict.AGREES if cell.high - cell.low <= 2 * FEW else Verdict.TOO_FEW


def _as_printed(value: float, column: Column, digits: int, printed: float) -> bool:
    unit = 10.0**-digits
    if column.printed == TRUNCATED:
        return -1e-9 <= value - printed < unit
    # The mean of two truncated numbers is up to a unit below the mean of the whole ones.
    return abs(value - printed) <= (1.5 if column.printed == MEAN_OF_OTHERS else 0.5) * unit + 1e-9


def _correlations(paper: Paper, table: Table, runs: Runs) -> list[Cell]:
    """Returns Pearson's correlation of two columns over the models, None below three models or without a spread."""
    printed = next(iter(table.rows.values()), ())
    cells = []
    for at, column in enumerate(table.columns):
        if column.measure != "correlation":
            cells.append(Cell(column.name))
            continue
        sides = [_side(table, column, part) for part in column.of]
        differences = ([_number(_measured(paper, side, model, runs)) for side in sides] for model in runs.models)
        pairs = [(first, second) for first, second in differences if first is not None and second is not None]
        known = len(pairs) >= 3 and all(len(set(side)) > 1 for side in zip(*pairs, strict=True))
        value = correlation(*zip(*pairs, strict=True)) if known else None
        cells.append(Cell(column.name, value, n=len(pairs), printed=printed[at] if printed else None))
    return cells


def _side(table: Table, column: Column, part: str) -> Column:
    """Returns the column of a name, where the table has none the slice of that category."""
    sliced = Column(part, column.run, column.metric, {"category": part})
    return next((candidate for candidate in table.columns if candidate.name == part), sliced)


def _number(measured: MetricResult | float | None) -> float | None:
    return measured.value if isinstance(measured, MetricResult) else measured


def _contrast(paper: Paper, table: Table, pair: tuple[str, str], model: str, runs: Runs) -> Contrast | None:
    """Returns the paired difference of two of a model's runs in the table's metric; None where one is not a result."""
    both = [run for name in pair if (run := runs.found.get((model, name)))]
    if len(both) < 2:
        return None
    wanted = {column.metric for column in table.columns if set(column.runs) & set(pair)}
    for name, run in zip(pair, both, strict=True):
        results = metric_results({paper.runs[name].task: run.tasks_and_groups[paper.runs[name].task]})
        if any(metric.void for metric in results if metric.name in wanted):
            return None
    units = statistics.shared(*matched(scores.read(both[0]), scores.read(both[1])))
    units = {step: values for step, values in units.items() if step.metric in wanted}
    paired = statistics.compare_units(units) if units else []
    return Contrast(model, pair, paired[0]) if paired else None


def _beside_printed(table: Table, contrast: Contrast) -> Paired:
    row = published_row(table, contrast.model)
    cells = {column.runs: cell for column, cell in zip(table.columns, row, strict=False) if cell is not None}
    first, second = (cells.get((name,)) for name in contrast.tasks)
    if first is None or second is None:
        return Paired(contrast, None, Verdict.NOTHING)
    low, high = (None if end is None else 100 * end for end in (contrast.pair.low, contrast.pair.high))
    cell = Cell("", 100 * contrast.pair.difference, low, high, 0, second - first)
    return Paired(contrast, second - first, judge(table, Column("", n=-1), cell))
