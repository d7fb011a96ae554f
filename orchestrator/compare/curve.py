"""The curves of a training: each task's metric by step, with the change from the checkpoint before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.compare import statistics
from orchestrator.compare.flips import Flips, flips
from orchestrator.compare.leaderboard import CellState, ReadCell, Source, read_cell
from orchestrator.compare.scores import Scores
from orchestrator.compare.series import Change
from orchestrator.compare.statistics import Paired
from orchestrator.run_folder.metrics import MetricResult, headlines, metric_results


@dataclass(frozen=True, slots=True)
class Training:
    """A series of checkpoints.

    Attributes:
        name: Its name.
        steps: Name of each checkpoint -> its step, in the order of the steps.
        sources: The checkpoints' runs, in the same order; a source's model is the checkpoint.
        baseline: The gate's baseline: "previous", "best", the name of a fixed model, or "" for none.
        fixed: The runs of that model.
        changes: The change of each checkpoint from its baseline, over all tasks together.
        unjudged: Reasons why the gate did not judge a checkpoint, one sentence each.
    """

    name: str
    steps: Mapping[str, int]
    sources: Sequence[Source]
    baseline: str = ""
    fixed: Sequence[Source] = ()
    changes: Sequence[Change] = ()
    unjudged: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """One checkpoint in one task.

    Attributes:
        step: Its step.
        source: Its run.
        state: State of the run.
        metric: The task's first metric, None if the run is not complete.
        before: Step of the complete checkpoint before, None for the first one.
        change: Paired change from it; None if there is none or the metric cannot be paired.
        flips: The items on which the two disagree.
    """

    step: int
    source: Source
    state: CellState
    metric: MetricResult | None = None
    before: int | None = None
    change: Paired | None = None
    flips: Flips | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A training in one task.

    Attributes:
        fixed: The fixed baseline's result, None without a baseline or with one that moves.
    """

    training: Training
    points: Sequence[Point]
    fixed: MetricResult | None = None

    @property
    def known(self) -> list[Point]:
        """Its points that have a value."""
        return [point for point in self.points if point.metric and point.metric.value is not None]


@dataclass(frozen=True, slots=True)
class Curve:
    """One task and variant, with a line for every training that has it."""

    task: str
    variant: str
    metric: str
    lines: Sequence[Line]


def curves(trainings: Sequence[Training]) -> list[Curve]:
    """Returns each task's curve; only the scores of a few checkpoints are in memory at a time."""
    by_task: dict[tuple[str, str], list[Line]] = {}
    for training in trainings:
        for key, line in _lines(training):
            by_task.setdefault(key, []).append(line)
    return [Curve(task, variant, _name(lines), lines) for (variant, task), lines in by_task.items()]


def _name(lines: Sequence[Line]) -> str:
    return next((point.metric.name for line in lines for point in line.points if point.metric), "")


def _lines(training: Training) -> Iterator[tuple[tuple[str, str], Line]]:
    """Yields variant, task and line of each task of a training."""
    columns: dict[tuple[str, tuple[str, ...]], list[Source]] = {}
    for source in training.sources:
        columns.setdefault((source.variant, tuple(source.tasks)), []).append(source)
    for (variant, tasks), sources in columns.items():
        same = (one for one in training.fixed if (one.variant, tuple(one.tasks)) == (variant, tasks))
        fixed = next((cell.scores for one in same if (cell := read_cell(one)).scores), None)
        points: dict[str, list[Point]] = {task: [] for task in tasks}
        before: tuple[int, Scores] | None = None
        for source in sources:
            cell, step = read_cell(source), training.steps[source.model]
            for task in tasks:
                points[task].append(_point(step, cell, task, before))
            if cell.scores:
                before = (step, cell.scores)
        for task, mine in points.items():
            yield (variant, task), Line(training, mine, _headline(fixed, task))


def _point(step: int, cell: ReadCell, task: str, before: tuple[int, Scores] | None) -> Point:
    metric = _headline(cell.scores, task)
    if cell.scores is None or metric is None:
        return Point(step, cell.source, cell.state)
    if metric.void:
        return Point(step, cell.source, CellState.NO_RESULT)
    point = Point(step, cell.source, cell.state, metric)
    if before is None:
        return point
    first, second = _only(before[1], task), _only(cell.scores, task)
    pairs = statistics.compare_units(statistics.shared(first, second))
    return replace(point, before=before[0], change=next(iter(pairs), None), flips=flips(first, second))


def _headline(scores: Scores | None, task: str) -> MetricResult | None:
    return headlines(metric_results(scores.run.tasks)).get(task) if scores else None


def _only(scores: Scores, task: str) -> Scores:
    """Returns the scores of a single task with only its first metric."""
    steps = [step for step in scores.steps if step.task == task and not step.group][:1]
    items = {task: scores.items[task]} if task in scores.items else {}
    return Scores(scores.run, items, {step: scores.steps[step] for step in steps}, scores.rules)
