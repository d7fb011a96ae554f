"""A metric of a group of foreign tasks: the harness's own code makes it of the values and sizes of its tasks."""

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
"""Label of every item: its task."""

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
"""Returns a group's metric of values of its parts."""


class _UndefinedError(Exception):
    """A group's metric without a value; the message is the reason."""


def plan(params: Params) -> Plan:
    """Reads the parameters; the group itself is loaded when there are items, or the metric is tried."""
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
    """Computes the metric; called where foreign code runs."""
    result = pb.MetricResult(denominator=len(table))
    try:
        _compute(params, table, result)
    except _UndefinedError as error:
        result.details[UNDEFINED] = str(error)
    return result


def check_here(params: Params) -> None:
    """Loads the group, which raises RequestError where it cannot be scored; called where foreign code runs."""
    _opened(params)


def _compute(params: Params, table: Table, result: pb.MetricResult) -> None:
    name, key = params.word("metric", ""), params.word("filter", "none")
    learned: Any = params.values.get("learned") or {}
    draws = params.integer("draws", DRAWS, 100, 100_000)
    library, group = _opened(params)
    words = {f"{library.prefix}:{task}": task for task in group.tasks}
    rows = table.scored
    owners = np.array(table.label(TASK), object)
    if absent := [each for each in words if not (owners == each).any()]:
        raise _UndefinedError(f"there are no items of {_named(absent)}")
    lost = [each for each in words if (~rows & (owners == each)).any()]
    repeats: list[list[_Part]] = []
    for repeat in sorted(set(table.repeat[rows].tolist())):
        parts = []
        for each in words:
            own = table.take(np.flatnonzero(rows & (owners == each) & (table.repeat == repeat)))
            records = [decode(record) for record in own.word(RECORD)]  # type: ignore[arg-type]
            about = {"task": each, "learned": learned.get(each, "{}")}
            parts += _part(library, task_of(about), each, (name, key, repeat), records)
        repeats.append(parts)
    if not any(repeats):
        raise _UndefinedError(f"no task has {name}")

    def combined(parts: Sequence[_Part], values: Sequence[float]) -> float:
        of_tasks = {words[part.word]: {f"{name},{key}": each} for part, each in zip(parts, values, strict=True)}
        found = library.combine(group, of_tasks, {words[part.word]: part.size for part in parts})
        number = number_of(found.get(f"{name},{key}"))
        if number is None:
            raise _UndefinedError(f"its aggregation returns {words_of(found.get(f'{name},{key}'))}")
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

    strata = [[each.part for each in every] for every in zip(*repeats, strict=True)]
    put(result, spread.of_halves(strata, of_halves, params.level))


def _opened(params: Params) -> tuple[Library, Group]:
    prefix, name = named(params.values, "group", "lmms:mmlu")
    library: Library = harness(prefix)
    try:
        groups = library.groups(name.partition("::")[0], foreign_allowed().include)
    except HarnessError as error:
        raise RequestError(str(error), "harness") from error
    found = next((group for group in groups if group.name == name), None)
    if found is None:
        raise RequestError(f"parameter 'group': {prefix}:{name} has no metrics over its tasks", "invalid_param")
    return library, found


def _part(
    library: Library, task: Scored, word: str, about: tuple[str, str, int], records: Iterable[Mapping[str, Any]]
) -> list[_Part]:
    """Returns a task's part of the metric; none where the task does not have it."""
    name, key, repeat = about
    counts: dict[tuple[str, str], int] = {}
    found = {index: each.results for index, each in documents(task, word, records).items()}
    for own in dict.fromkeys(
        own for results in found.values() for own in results
    ):  # as evaluators do: filter by filter
        for results in found.values():
            for metric in results.get(own, {}):
                counts[metric, own] = counts.get((metric, own), 0) + task.aggregates(metric)
    values = {index: results[key][name] for index, results in found.items() if name in results.get(key, {})}
    if not values:
        return []
    part = spread.part(task, (word, name, repeat), values)
    if number_of(part.found) is None:
        raise _UndefinedError(f"the aggregation of {word} returns {words_of(part.found)}")
    return [_Part(part, library.size([count for count in counts.values() if count]))]


def _weights(parts: Sequence[_Part], combined: Combined) -> list[float] | None:
    """Returns the weight of each part in the group's metric; None where it is no weighted mean of them."""
    weights = [combined(parts, unit) for unit in np.eye(len(parts)).tolist()]
    value = combined(parts, [part.value for part in parts])
    mean = math.fsum(weight * part.value for weight, part in zip(weights, parts, strict=True))
    same = abs(mean - value) <= _SAME * max(1.0, abs(mean))
    return weights if same and abs(math.fsum(weights) - 1) <= _SAME else None


def _interval(
    repeats: Sequence[Sequence[_Part]], weights: Sequence[float], draws: int, level: float
) -> pb.Interval | None:
    """Returns the interval of a weighted mean of the tasks' means over independent samples; None of what is none."""
    strata: list[Floats] = []
    for each in zip(*repeats, strict=True):
        scores = [spread.scores_of(part.part) for part in each]
        known = [found for found in scores if found is not None]
        units = each[0].part.units
        if len(known) < len(repeats) or len({len(found) for found in known}) > 1 or len(set(units)) < len(units):
            return None
        if len(known[0]) < 2:
            return None
        strata.append(np.mean(known, axis=0))
    return of_strata(strata, weights, draws, level)


def _named(words: Sequence[str]) -> str:
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")


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
