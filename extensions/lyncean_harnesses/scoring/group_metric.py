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
from lyncean_harnesses.library.library import Group, Library
from lyncean_harnesses.library.scored import Scored
from lyncean_harnesses.library.values import decode
from lyncean_harnesses.scoring import cell
from lyncean_harnesses.scoring.judge import answered_here, unanswered
from lyncean_harnesses.scoring.rule import named, number_of, task_of
from lyncean_harnesses.scoring.task_metric import RECORD, UNDEFINED, aggregated, documents, words_of
from scorer import RequestError, foreign_allowed
from scorer.metrics import DRAWS, Metric, Params, Plan, Table, of_strata

NAME = "harness_group"

TASK = "task"
"""Label of every item: its task."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class _Part:
    """A task in one repeat: the values of the metric in the order of its documents, and their aggregation."""

    word: str
    task: Scored
    values: list[Any]
    value: float
    size: int


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
    if weights is None:
        result.details["no_interval"] = "the group's metric is no weighted mean of its tasks'"
        return
    result.details["weights"] = {part.word: weight for part, weight in zip(repeats[0], weights, strict=True)}
    interval, reason = _interval(name, repeats, weights, draws, params.level)
    if interval is None:
        result.details["no_interval"] = reason
    else:
        result.interval.CopyFrom(interval)


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
    found = documents(task, records)
    for own in dict.fromkeys(own for results in found for own in results):  # as evaluators do: filter by filter
        for results in found:
            for metric in results.get(own, {}):
                counts[metric, own] = counts.get((metric, own), 0) + task.aggregates(metric)
    values = [results[key][name] for results in found if name in results.get(key, {})]
    if not values:
        return []
    value = aggregated(task, values, word, name, repeat)
    number = number_of(value)
    if number is None:
        raise _UndefinedError(f"the aggregation of {word} returns {words_of(value)}")
    return [_Part(word, task, values, number, library.size([count for count in counts.values() if count]))]


def _weights(parts: Sequence[_Part], combined: Combined) -> list[float] | None:
    """Returns the weight of each part in the group's metric; None where it is no weighted mean of them."""
    weights = [combined(parts, unit) for unit in np.eye(len(parts)).tolist()]
    value = combined(parts, [part.value for part in parts])
    mean = math.fsum(weight * part.value for weight, part in zip(weights, parts, strict=True))
    same = abs(mean - value) <= _SAME * max(1.0, abs(mean))
    return weights if same and abs(math.fsum(weights) - 1) <= _SAME else None


def _interval(
    name: str, repeats: Sequence[Sequence[_Part]], weights: Sequence[float], draws: int, level: float
) -> tuple[pb.Interval | None, str]:
    """Returns the interval of a weighted mean of the tasks' means, or None and why there is none."""
    strata: list[Floats] = []
    for each in zip(*repeats, strict=False):
        scores = [_scores(name, part) for part in each]
        known = [found for found in scores if found is not None]
        if len(known) < len(repeats) or len({len(found) for found in known}) > 1:
            return None, f"{name} of {each[0].word} is no mean over samples"
        if len(known[0]) < 2:
            return None, f"fewer than two samples in {each[0].word}"
        strata.append(np.mean(known, axis=0))
    return of_strata(strata, weights, draws, level), ""


def _scores(name: str, part: _Part) -> Floats | None:
    """Returns the scores whose mean the metric is: its values, or the aggregation of each by itself; None without."""
    numbers = [number_of(value) for value in part.values]
    if None not in numbers and part.task.is_mean(name):
        return np.array(numbers, np.float64)
    half = len(part.values) // 2
    try:
        with unanswered() as asked:  # a judge is for all items together
            both = [_mean_of(name, part, [part.values[:half], part.values[half:]])] if half else []
            if asked() or not both or both[0] is None:
                return None
            found = _mean_of(name, part, [[value] for value in part.values])
            return None if asked() else found
    except Exception:  # an aggregation need not take some of its values alone
        return None


def _mean_of(name: str, part: _Part, pieces: Sequence[list[Any]]) -> Floats | None:
    """Returns the aggregation of pieces of the values, if the aggregation of all is their weighted mean."""
    found = [number_of(part.task.aggregate(name, piece)) for piece in pieces]
    known = [number for number in found if number is not None]
    if len(known) < len(found):
        return None
    numbers = np.array(known, np.float64)
    mean = float(np.average(numbers, weights=[len(piece) for piece in pieces]))
    return numbers if abs(mean - part.value) <= _SAME * max(1.0, abs(mean)) else None


def _named(words: Sequence[str]) -> str:
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")


METRIC = Metric(
    name=NAME,
    description="Metric of a group of another harness over its tasks, by its own code, of their values and sizes. "
    "Every item has its task in the label task. value is set where every item has a result; its interval is a "
    "bootstrap over the samples of each task where it is a mean of them. details.weights has the weight of each task.",
    plan=plan,
    params={
        "group": "the group, for example lmms:mmlu; one in another group is lmms:OTHER::NAME",
        "learned": "for each task what the harness learned of it from its data, as JSON",
        "metric": "the metric, as the tasks name it",
        "filter": 'the filter whose answers count, default "none"',
    },
    unit="",
)
