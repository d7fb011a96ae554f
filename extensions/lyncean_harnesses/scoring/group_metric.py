"""A metric of a group of foreign tasks: the harness's own code computes it from the values and sizes of its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lyncean.arrays import Floats, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.library import HarnessError, harness
from lyncean_harnesses.library.catalogue import Group
from lyncean_harnesses.library.library import Library
from lyncean_harnesses.library.scored import Scored
from lyncean_harnesses.library.values import decode
from lyncean_harnesses.scoring import cell, spread
from lyncean_harnesses.scoring.judge import answered_here
from lyncean_harnesses.scoring.rule import named, number_of, task_of
from lyncean_harnesses.scoring.task_metric import RECORD, UNDEFINED, documents, put, words_of
from scorer import RequestError, foreign_allowed
from scorer.metrics import DRAWS, Metric, Params, Plan, Table, of_strata

NAME = "harness_group"

TASK = "task"
"""Label of every item with its task."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class _Part:
    """A task in one repeat, and its size in the group."""

    part: spread.Part
    size: int

    @property
    def word(self) -> str:
        return self.part.word

    @property
    def value(self) -> float:
        return self.part.value


Combined = Callable[[Sequence[_Part], Sequence[float]], float]
"""Returns a group's metric from the values of its parts."""


class _UndefinedError(Exception):
    """A group's metric without a value; the message is the reason."""


def plan(params: Params) -> Plan:
    """Reads the parameters; the group itself is loaded to compute or check the metric."""
    foreign_allowed()
    about = (NAME, named(params.values, "group", "lmms:mmlu"), params.values)
    params.word("metric", "")
    params.word("filter", "none")
    params.integer("draws", DRAWS, 100, 100_000)

    def compute(table: Table) -> pb.MetricResult:
        return answered_here(partial(cell.measured, *about, table))

    check = partial(cell.checked, *about)
    return Plan(compute, columns=frozenset({RECORD}), labels=(TASK,), check=lambda: answered_here(check))


def measured_here(params: Params, table: Table) -> pb.MetricResult:
    """Computes the metric; called in the process of foreign code."""
    result = pb.MetricResult(denominator=len(table))
    try:
        _compute(params, table, result)
    except _UndefinedError as error:
        result.details[UNDEFINED] = str(error)
    return result


def check_here(params: Params) -> None:
    """Loads the group, or raises RequestError; called in the process of foreign code."""
    _opened(params)


def _compute(params: Params, table: Table, result: pb.MetricResult) -> None:
    name, key = params.word("metric", ""), params.word("filter", "none")
    learned: Any = params.values.get("learned") or {}
    draws = params.integer("draws", DRAWS, 100, 100_000)
    library, group = _opened(params)
    tasks = {f"{library.prefix}:{task}": task for task in group.tasks}
    rows = table.scored
    owners = np.array(table.label(TASK), object)
    if absent := [word for word in tasks if not (owners == word).any()]:
        raise _UndefinedError(f"there are no items of {_named(absent)}")
    lost = [word for word in tasks if (~rows & (owners == word)).any()]
    repeats: list[list[_Part]] = []
    for repeat in sorted(set(table.repeat[rows].tolist())):
        parts = []
        for word in tasks:
            selected = table.take(np.flatnonzero(rows & (owners == word) & (table.repeat == repeat)))
            records = [decode(record) for record in selected.word(RECORD)]  # type: ignore[arg-type]
            about = {"task": word, "learned": learned.get(word, "{}")}
            parts += _part(library, task_of(about), word, (name, key, repeat), records)
        repeats.append(parts)
    if not any(repeats):
        raise _UndefinedError(f"no task has {name}")

    def combined(parts: Sequence[_Part], values: Sequence[float]) -> float:
        of_tasks = {tasks[part.word]: {f"{name},{key}": value} for part, value in zip(parts, values, strict=True)}
        metrics = library.combine(group, of_tasks, {tasks[part.word]: part.size for part in parts})
        number = number_of(metrics.get(f"{name},{key}"))
        if number is None:
            raise _UndefinedError(f"its aggregation returns {words_of(metrics.get(f'{name},{key}'))}")
        return number

    values = [combined(parts, [part.value for part in parts]) for parts in repeats]
    result.value_answered, result.denominator_answered = math.fsum(values) / len(values), int(rows.sum())
    if lost:
        missing = len(table) - result.denominator_answered
        raise _UndefinedError(
            f"{missing} of {len(table)} items have no result, of {_named(lost)}; the value is over the others"
        )
    result.value = result.value_answered
    weights = _weights(repeats[0], combined)
    if weights is not None:
        result.details["weights"] = {part.word: weight for part, weight in zip(repeats[0], weights, strict=True)}
        if interval := _interval(repeats, weights, draws, params.level):
            result.interval.CopyFrom(interval)
            return

    def of_halves(values: list[list[float]]) -> float:
        return math.fsum(map(combined, repeats, zip(*values, strict=True))) / len(repeats)

    strata = [[part.part for part in parts] for parts in zip(*repeats, strict=True)]
    put(result, spread.of_halves(strata, of_halves, params.level))


def _opened(params: Params) -> tuple[Library, Group]:
    prefix, name = named(params.values, "group", "lmms:mmlu")
    library: Library = harness(prefix)
    try:
        groups = library.groups(name.partition("::")[0], foreign_allowed().include)
    except HarnessError as error:
        raise RequestError(str(error), "harness") from error
    group = next((candidate for candidate in groups if candidate.name == name), None)
    if group is None:
        raise RequestError(f"parameter 'group': {prefix}:{name} has no metrics over its tasks", "invalid_param")
    return library, group


def _part(
    library: Library, task: Scored, word: str, about: tuple[str, str, int], records: Iterable[Mapping[str, Any]]
) -> list[_Part]:
    """Returns a task's part of the metric; empty if the task does not have the metric."""
    name, key, repeat = about
    counts: dict[tuple[str, str], int] = {}
    by_index = {index: document.results for index, document in documents(task, word, records).items()}
    for filter_name in dict.fromkeys(
        filter_name for results in by_index.values() for filter_name in results
    ):  # as evaluators do: filter by filter
        for results in by_index.values():
            for metric in results.get(filter_name, {}):
                counts[metric, filter_name] = counts.get((metric, filter_name), 0) + task.aggregates(metric)
    values = {index: results[key][name] for index, results in by_index.items() if name in results.get(key, {})}
    if not values:
        return []
    part = spread.part(task, (word, name, repeat), values)
    if number_of(part.aggregate) is None:
        raise _UndefinedError(f"the aggregation of {word} returns {words_of(part.aggregate)}")
    return [_Part(part, library.size([count for count in counts.values() if count]))]


def _weights(parts: Sequence[_Part], combined: Combined) -> list[float] | None:
    """Returns the weight of each part in the group's metric; None if the metric is not a weighted mean of them."""
    weights = [combined(parts, unit) for unit in np.eye(len(parts)).tolist()]
    value = combined(parts, [part.value for part in parts])
    mean = math.fsum(weight * part.value for weight, part in zip(weights, parts, strict=True))
    same = abs(mean - value) <= _SAME * max(1.0, abs(mean))
    return weights if same and abs(math.fsum(weights) - 1) <= _SAME else None


def _interval(
    repeats: Sequence[Sequence[_Part]], weights: Sequence[float], draws: int, level: float
) -> pb.Interval | None:
    """Returns the interval of a weighted mean of the tasks' means over independent samples; None for other metrics."""
    strata: list[Floats] = []
    for parts in zip(*repeats, strict=True):
        scores = [spread.scores_of(part.part) for part in parts]
        known = [numbers for numbers in scores if numbers is not None]
        units = parts[0].part.units
        if len(known) < len(repeats) or len({len(numbers) for numbers in known}) > 1 or len(set(units)) < len(units):
            return None
        if len(known[0]) < 2:
            return None
        strata.append(np.mean(known, axis=0))
    return of_strata(strata, weights, draws, level)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


METRIC = Metric(
    name=NAME,
    description="Metric of a group of another harness over its tasks, by its own code, of their values and sizes. "
    "Every item has its task in the label task. value is set where every item has a result; its interval is a "
    "bootstrap over the samples of each task where it is a mean of them, or else by random halves of them. "
    "details.weights has the weight of each task.",
    plan=plan,
    params={
        "group": "the group, for example lmms:mmlu; one in another group is lmms:OTHER::NAME",
        "learned": "for each task what the harness learned of it from its data, as JSON",
        "metric": "the metric, as the tasks name it",
        "filter": 'the filter whose answers count, default "none"',
    },
    unit="",
)
