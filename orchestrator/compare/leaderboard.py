"""The leaderboard of a suite: models x tasks, from runs of one task or group each."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from lyncean.errors import UserError
from orchestrator.compare import gate, scores, statistics
from orchestrator.compare.contrasts import Contrast, contrasts
from orchestrator.compare.scores import Scores, Step
from orchestrator.compare.series import Change
from orchestrator.compare.statistics import Paired, Place
from orchestrator.compare.suite_gate import Judged, Rule, judge
from orchestrator.run_folder.files import has_results
from orchestrator.run_folder.metrics import NO_RESULT, MetricResult, counts, headlines, metric_results, unasked
from orchestrator.run_folder.reader import Run, open_run
from orchestrator.run_folder.validity import lines

_SHARES = ("fraction", "percent")
_MOST_TO_BEST = 30
"""Models up to which each is tested against the best one; the number of draws grows with their square."""


class CellState(StrEnum):
    """State of a cell; only a complete one has numbers, unless its metric is void.

    Attributes:
        COMPLETE: Every item has an outcome, and none has failed.
        INCOMPLETE: It was started; the same command resumes it.
        FAILED: A defect or a mistake ended it; the same command does not help.
        NOT_RUN: It was not started.
        NO_RESULT: It is complete, but its metric is void.
    """

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    NOT_RUN = "not run"
    NO_RESULT = NO_RESULT


@dataclass(frozen=True, slots=True)
class Source:
    """A run of a suite.

    Attributes:
        model: The model's name in the suite.
        variant: The variant's name, "" if there is none.
        tasks: Names of its tasks.
        path: Its folder, which may not exist yet.
        failed: True if a defect or a mistake ended it.
        error: Reason why it ended, "" if none is known.
        step: The model's training step, None if it is not a checkpoint.
    """

    model: str
    variant: str
    tasks: Sequence[str]
    path: Path
    failed: bool = False
    error: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One model in one task.

    Attributes:
        task: The task, or a group over its tasks.
        state: State of its cell.
        source: The cell's run.
        metric: The task's first metric, None if the cell is not complete.
        place: Its rank among the complete models; None if the metric is not a mean over items or groups.
        to_best: Its paired difference to the best model; None for the best one, and without a rank.
        asked: Note on how its interval differs from a 95% CI of all samples, "" if it does not.
    """

    model: str
    task: str
    state: CellState
    source: Source
    metric: MetricResult | None = None
    place: Place | None = None
    to_best: Paired | None = None
    asked: str = ""

    @property
    def best(self) -> bool:
        """True if there are several complete models and none has a higher score in the task."""
        return self.place is not None and self.place.rank == 1

    @property
    def numbers(self) -> dict[str, Any]:
        """Its numbers for JSON, percent as fractions; empty unless it is complete."""
        metric, pair = self.metric, self.to_best
        if metric is None:
            return {}
        numbers: dict[str, Any] = {"metric": metric.name, "n": metric.denominator}
        numbers["unit"] = "fraction" if metric.unit in _SHARES else metric.unit
        for name, value in (("value", metric.value), ("low", metric.low), ("high", metric.high)):
            numbers[name] = metric.in_fractions(value)
        if metric.method:
            numbers["interval"] = metric.method
        if self.asked:
            numbers["asked"] = self.asked
        if self.place is not None:
            numbers |= {"rank": self.place.rank, "rank_best": self.place.best, "rank_worst": self.place.worst}
        if pair is not None:
            numbers |= {"to_best": pair.difference, "to_best_low": pair.low, "to_best_high": pair.high}
            numbers |= {"p": pair.adjusted, "test": pair.test, "items": pair.items}
        return numbers

    def as_json(self) -> dict[str, Any]:
        """Returns its state and its numbers."""
        source = self.source
        return {"state": str(self.state), "run": source.path.name, "error": source.error, **self.numbers}

    @property
    def shown(self) -> str:
        """Its value, or its state if it has none."""
        return self.state if self.metric is None else self.metric.text(self.metric.value)


@dataclass(frozen=True, slots=True)
class Row:
    """One model: its entries in the order of the table's tasks.

    Attributes:
        mean: Mean of the tasks' metrics as a fraction, with equal weights. None unless there are several tasks, all
            of them are complete, and every metric is a share of which more is better.
    """

    model: str
    entries: Sequence[Entry]
    mean: float | None


@dataclass(frozen=True, slots=True)
class Table:
    """All models in one variant.

    Attributes:
        variant: The variant, "" if the suite has none.
        tasks: Task -> name of its first metric, "" if no model is complete.
        rows: The models: by mean if all of them have one, else in the suite's order.
        cautions: Reasons why models are not comparable, one sentence each.
        contrasts: Comparisons of tasks that are variants of one benchmark, row by row.
    """

    variant: str
    tasks: Mapping[str, str]
    rows: Sequence[Row]
    cautions: Sequence[str]
    contrasts: Sequence[Contrast] = ()

    def level(self, task: str) -> str:
        """Returns the name of the intervals in a task's column."""
        return "95% CI" if all(not entry.asked for entry in self.column(task)) else "95% interval"

    def column(self, task: str) -> list[Entry]:
        """Returns a task's entries by rank, then those without a rank."""
        at = list(self.tasks).index(task)
        entries = [row.entries[at] for row in self.rows]
        return sorted(entries, key=lambda entry: entry.place.rank if entry.place else len(entries) + 1)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A suite's results.

    Attributes:
        tables: One for each variant.
        findings: Findings of the gate.
        unjudged: Reasons why the gate did not judge a model, one sentence each.
        changes: Change of each model from its baseline, in the suite's order, if the baseline moves.
    """

    name: str
    tables: Sequence[Table]
    sources: Sequence[Source]
    findings: Sequence[gate.Finding]
    unjudged: Sequence[str]
    changes: Sequence[Change] = ()

    @property
    def verdict(self) -> str:
        """Verdict of the gate: the worst of its findings."""
        return gate.worst(self.findings)

    def entries(self) -> list[tuple[str, Entry]]:
        """Returns every entry with its variant."""
        return [(table.variant, entry) for table in self.tables for row in table.rows for entry in row.entries]

    def as_json(self) -> dict[str, Any]:
        """Returns the leaderboard as JSON."""
        return {
            "suite": self.name,
            "tables": [
                {
                    "variant": table.variant,
                    "tasks": dict(table.tasks),
                    "cautions": list(table.cautions),
                    "contrasts": [contrast.as_json() for contrast in table.contrasts],
                    "models": [
                        {
                            "model": row.model,
                            "mean_of_tasks": row.mean,
                            "tasks": {entry.task: entry.as_json() for entry in row.entries},
                        }
                        for row in table.rows
                    ],
                }
                for table in self.tables
            ],
            "gate": {
                "verdict": self.verdict,
                "findings": [asdict(finding) for finding in self.findings],
                "unjudged": list(self.unjudged),
            },
            **({"changes": [change.as_json() for change in self.changes]} if self.changes else {}),
        }


def make(
    name: str,
    sources: Sequence[Source],
    conditions: Sequence[gate.Condition] = (),
    baseline: str = "",
    noise: float | None = None,
) -> Leaderboard:
    """Returns the leaderboard of the runs of a suite, in any state.

    The gate judges all tasks of a model together, against the model `baseline`, or the previous or best model before it
    (`series.PREVIOUS`, `series.BEST`); `noise` is the noise of the server.
    """
    cells = [read_cell(source) for source in sources]
    variants = list(dict.fromkeys(source.variant for source in sources))
    tables, judged = [], Judged([], [], [])
    rule = Rule(conditions, baseline, len(variants), noise)
    for variant in variants:
        of_variant = [cell for cell in cells if cell.source.variant == variant]
        tables.append(_table(variant, of_variant))
        steps = {cell.source.model: cell.source.step for cell in of_variant}
        judged = judged.with_(judge(variant, _models(variant, of_variant), steps, rule))
    sources = [cell.source for cell in cells]
    return Leaderboard(name, tables, sources, judged.findings, judged.unjudged, judged.changes)


class ReadCell(NamedTuple):
    """A run of a suite, its state, and its scores if it is complete."""

    source: Source
    state: CellState
    scores: Scores | None = None


def read_cell(source: Source) -> ReadCell:
    """Returns a run's state, with its scores if it is complete."""
    try:
        state = _state(source)
        return ReadCell(source, state, scores.read(open_run(source.path)) if state is CellState.COMPLETE else None)
    except UserError as error:  # a damaged run does not hide the others
        return ReadCell(replace(source, failed=True, error=str(error)), CellState.FAILED)


def _state(source: Source) -> CellState:
    if source.failed:
        return CellState.FAILED
    if has_results(source.path):
        run = open_run(source.path)
        left = counts(run.tasks)["failed"] or unasked(run.tasks)
        return CellState.INCOMPLETE if left else CellState.COMPLETE
    return CellState.INCOMPLETE if source.path.exists() or source.error else CellState.NOT_RUN


def _table(variant: str, cells: Sequence[ReadCell]) -> Table:
    complete = [(cell.source, cell.scores) for cell in cells if cell.scores]
    groups = {name: group["tasks"] for _, run in complete for name, group in run.run.groups.items()}
    columns = groups | {task: [task] for cell in cells for task in cell.source.tasks}
    models = list(dict.fromkeys(cell.source.model for cell in cells))
    entries: dict[tuple[str, str], Entry] = {}
    cautions: list[str] = []
    for task, members in columns.items():
        column = [cell for cell in cells if set(members) <= set(cell.source.tasks)]
        metrics = {
            id(cell.scores): headlines(metric_results(cell.scores.run.tasks_and_groups)).get(task)
            for cell in column
            if cell.scores
        }
        void = {run_id: metric.void for run_id, metric in metrics.items() if metric and metric.void}
        runs = [cell.scores for cell in column if cell.scores and id(cell.scores) not in void]
        step = Step(task, next((metric.name for metric in metrics.values() if metric), ""))
        # A metric that is not a mean over items or groups has no test; a single model has no rank.
        ranked = runs if len(runs) > 1 and all(step in run.steps for run in runs) else []
        places = {standing.name: standing for standing in statistics.leaderboard(ranked, step)[1]} if ranked else {}
        # With a hundred checkpoints 4,950 pairs would share the 5%; their changes are reported instead.
        few = 0 < len(ranked) <= _MOST_TO_BEST
        pairs = statistics.to_best(ranked, step) if few else [None] * len(ranked)
        by_run = {id(run): pair for run, pair in zip(ranked, pairs, strict=True)} if pairs else {}
        cautions += _cautions(ranked, pairs)
        for source, state, run in column:
            entry = Entry(source.model, task, state, source)
            if why := void.get(id(run)):
                entry = Entry(source.model, task, CellState.NO_RESULT, replace(source, error=why))
            elif run is not None:
                cautions += [f"{run.run.name}: {line}" for line in lines({task: run.run.tasks_and_groups[task]})]
                standing, pair = places.get(run.run.name), by_run.get(id(run))
                interval_note = ", ".join(note.brief for note in run.run.notes if note.task == task and note.brief)
                entry = Entry(source.model, task, state, source, metrics[id(run)], standing, pair, interval_note)
            entries[source.model, task] = entry
    # A complete cell has an error if more items lack a result than its options allow; its numbers stay.
    cautions += [f"{source.path.name}: {source.error}" for source, _ in complete if source.error]
    columns = {task: members for task, members in columns.items() if all((model, task) in entries for model in models)}
    rows = [_row(model, [entries[model, task] for task in columns], groups) for model in models]
    if all(row.mean is not None for row in rows):
        rows.sort(key=lambda row: -(row.mean or 0.0))
    names = {task: next((e.metric.name for m in models if (e := entries[m, task]).metric), "") for task in columns}
    contrasted = contrasts([(source.model, run) for source, run in complete])
    return Table(variant, names, rows, list(dict.fromkeys(cautions)), contrasted)


def _row(model: str, entries: Sequence[Entry], groups: Container[str]) -> Row:
    values = [_share(entry.metric) for entry in entries if entry.task not in groups]
    known = [value for value in values if value is not None]
    complete = len(known) == len(values) > 1
    return Row(model, entries, sum(known) / len(known) if complete else None)


def _share(metric: MetricResult | None) -> float | None:
    if metric is None or metric.unit not in _SHARES or metric.less_is_better:
        return None
    return metric.in_fractions(metric.value)


def _cautions(runs: Sequence[Scores], pairs: Sequence[Paired | None]) -> list[str]:
    """Returns the differences, other than the model, between the best run of a task and the others."""
    best = next((run for run, pair in zip(runs, pairs, strict=True) if pair is None), None) if pairs else None
    if best is None:
        return []
    pairs_of_runs = ((run, why) for run in runs if run is not best for why in scores.cautions(best, run))
    return [
        f"{best.run.name} and {run.run.name}: {why.text}" for run, why in pairs_of_runs if why.what != scores.RESULT
    ]


def _models(variant: str, cells: Sequence[ReadCell]) -> dict[str, Scores | None]:
    """Returns each model's tasks merged into one run, by the model's name; None if one is not complete."""
    by_model: dict[str, Scores | None] = {}
    for model in dict.fromkeys(cell.source.model for cell in cells):
        per_cell = [cell.scores for cell in cells if cell.source.model == model]
        name = f"{model} {variant}".strip()
        by_model[model] = merged(name, [run for run in per_cell if run]) if all(per_cell) else None
    return by_model


def merged(name: str, runs: Sequence[Scores]) -> Scores:
    """Merges the tasks of several runs of one model into one run."""
    results = {
        "tasks": {task: entry for run in runs for task, entry in run.run.tasks.items()},
        "groups": {name: entry for run in runs for name, entry in run.run.groups.items()},
    }
    return Scores(
        Run(runs[0].run.path, runs[0].run.manifest, results, name),
        {task: items for run in runs for task, items in run.items.items()},
        {step: spec for run in runs for step, spec in run.steps.items()},
        {rule: sha256 for run in runs for rule, sha256 in run.rules.items()},
    )


def not_complete(board: Leaderboard) -> list[tuple[str, CellState, str]]:
    """Returns the name, state and reason of every cell that is not complete."""
    cells = {
        entry.source.path.name: (entry.state, entry.source.error)
        for _, entry in board.entries()
        if entry.state is not CellState.COMPLETE
    }
    return [(name, *rest) for name, rest in cells.items()]
