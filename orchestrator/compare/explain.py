"""Explains why the results of two runs differ: attributes each item's part of the difference to a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.compare import scores
from orchestrator.compare.causes import Attribution, Attributor, Cause, Edit, Side, edit, prompt
from orchestrator.compare.division import NOWHERE, Difference, Measure, apportioned, divided, exact
from orchestrator.compare.items import Items, pair
from orchestrator.compare.rows import Match, by_row_instead, matched
from orchestrator.errors import ConfigError
from orchestrator.run_folder.metrics import MetricResult, overall, stored_results
from orchestrator.run_folder.reader import Item, Run, open_run

_ANSWERED = ".answered"
_POINTS = {"fraction": 100, "percent": 1}
"""Unit -> points that a value of 1 is worth."""
_SAME = Fraction(1, 10**9)
"""Tolerance: results are reported as floats, and one this close to the mean of the items is that mean."""
_MORE_EDITS = 200
"""Items without a difference in which edits of the prompt are counted as well."""


@dataclass(frozen=True, slots=True)
class Headline:
    """A reported result.

    Attributes:
        result: The metric's result.
        measure: The scores that it is the mean of; all scores if the metric is not a mean over items or groups.
        points: The result in points, out of 100.
    """

    result: MetricResult
    measure: Measure
    points: Fraction

    @property
    def name(self) -> str:
        """The metric's name, with ".answered" if it is over answered items."""
        return self.result.name + (_ANSWERED if self.measure.answered else "")


@dataclass(slots=True)
class Share:
    """The part of a difference that has one attribution.

    Attributes:
        attribution: The cause, and further possible causes.
        points: Its part of the difference, in points.
        pairs: Index of each item in both runs, or `NOWHERE`.
    """

    attribution: Attribution
    points: Fraction = Fraction(0)
    pairs: list[tuple[int, int]] = field(default_factory=list)


class Printed(NamedTuple):
    """A difference in points of two decimals.

    Attributes:
        difference: The second result minus the first, as printed.
        points: Points of each share; they sum to the difference.
        percent: The same in percent of the difference, which sum to 100; None if the difference is 0.
    """

    first: float
    second: float
    difference: float
    points: Sequence[float]
    percent: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Explained:
    """The difference of two runs in one task.

    Attributes:
        headlines: Both results.
        sides: The records of both runs.
        shares: The causes with their points, the largest first; their points sum to the difference exactly.
        items: Number of items that both runs have.
        alone: Number of items that only the first run has, and only the second.
    """

    task: str
    headlines: tuple[Headline, Headline]
    sides: tuple[Side, Side]
    shares: Sequence[Share]
    items: int
    alone: tuple[int, int]

    @property
    def difference(self) -> Fraction:
        """The second result minus the first, in points."""
        return self.headlines[1].points - self.headlines[0].points

    def printed(self) -> Printed:
        """Returns the rounded numbers that are printed."""
        first, second = (round(100 * head.points) for head in self.headlines)
        points = apportioned([100 * share.points for share in self.shares], second - first)
        percent: list[int | None] = [None] * len(points)
        if second != first:
            percent = [*apportioned([100 * share.points / self.difference for share in self.shares], 100)]
        return Printed(first / 100, second / 100, (second - first) / 100, [point / 100 for point in points], percent)

    def read(self, pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[Item | None, Item | None]]:
        """Yields the items at pairs of indices, from both runs."""
        first, second = (
            side.run.at([places[here] for places in pairs if places[here] != NOWHERE])
            for here, side in enumerate(self.sides)
        )
        for one, other in pairs:
            yield None if one == NOWHERE else next(first), None if other == NOWHERE else next(second)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the results of two runs differ.

    Attributes:
        tasks: The tasks that both have.
        notes: Differences that are not explained, one sentence each.
        facts: Setting, version or hash -> its value in both runs; None if a run does not record it.
    """

    runs: tuple[Run, Run]
    tasks: Sequence[Explained]
    notes: Sequence[str]
    facts: Mapping[str, tuple[Any, Any]]

    @property
    def differing(self) -> dict[str, tuple[Any, Any]]:
        """The facts in which the runs differ."""
        return {name: values for name, values in self.facts.items() if values[0] != values[1]}


def explain(
    first: Path, second: Path, metrics: Sequence[str] = (), tasks: Sequence[str] = (), *, match: Match = None
) -> Explanation:
    """Divides the difference of two runs' results among its causes.

    Args:
        first: A run folder.
        second: The other run folder.
        metrics: The metric's name, with ".answered" for its value over answered items; a second name is for the second
            run. By default the first run's first metric.
        tasks: Only these tasks; by default all that both have.
        match: Pairing of items.

    Raises:
        ConfigError: A folder is not a complete run, the runs have no common task, or a metric is missing.
    """
    one, other = scores.named([open_run(first), open_run(second)])
    runs = one, other
    for run in runs:
        if not run.tasks:
            raise ConfigError(f"{run.name} is not complete, it has no results: run its command again to the end")
    read = matched(scores.read(one), scores.read(other), match)
    ordered = dict.fromkeys([*runs[0].tasks, *read[0].tasks])
    common = [task for task in ordered if all(task in side.items for side in read)]
    if not common:
        names = " and ".join(", ".join(run.tasks) for run in runs)
        hint = by_row_instead(runs[0].tasks, runs[1].tasks, match)
        raise ConfigError(f"{runs[0].name} and {runs[1].name} have no task in common: {names}{hint}")
    if missing := [task for task in tasks if task not in common]:
        raise ConfigError(f"--task: {missing[0]} is not in both runs; they share {', '.join(common)}")
    alone = [[*({*run.tasks} - {*common} - {*side.tasks.values()})] for run, side in zip(runs, read, strict=True)]
    alone = [] if tasks else [sorted(names) for names in alone]
    notes = [f"only in {run.name}: {', '.join(names)}" for run, names in zip(runs, alone, strict=False) if names]
    notes += [f"{run.name}: {sentence}" for run in runs for sentence in run.in_part]
    notes += [
        f"{task} and {read[1].tasks[name]} are other tasks, and their items are paired by row"
        for name, task in read[0].tasks.items()
    ]
    explained = []
    for task in tasks or common:
        task_names = read[0].tasks.get(task, task), read[1].tasks.get(task, task)
        both = read[0].items[task], read[1].items[task]
        imported = any(run.identity.get("imported") for run in runs)
        if imported and not len(pair([mine.keys.read() for mine in both])[0]):
            notes.append(f"{task} is left out: the two have no item in common")
            continue
        heads = _headlines(runs, task_names, metrics, both)
        if isinstance(heads, str):
            notes.append(heads)
            continue
        explained.append(_explained(runs, task, task_names, heads, both))
        weighing = {head.name for head in heads if head.result.metric not in scores.PAIRED}
        notes += [
            f"{task}: {name} weighs items in its own way, and what that adds is aggregation"
            for name in sorted(weighing)
        ]
    return Explanation(runs, explained, notes, _facts(read, {task.task for task in explained}))


def _explained(
    runs: tuple[Run, Run],
    task: str,
    names: tuple[str, str],
    heads: tuple[Headline, Headline],
    items: tuple[Items, Items],
) -> Explained:
    """Explains a task, which may have another name in each run (`names`)."""
    means, differences = divided(items, (heads[0].measure, heads[1].measure))
    sides = Side.of(runs[0], names[0]), Side.of(runs[1], names[1])
    both = len(pair([mine.keys.read() for mine in items])[0])
    explained = Explained(
        task,
        (_exactly(heads[0], 100 * means[0]), _exactly(heads[1], 100 * means[1])),
        sides,
        shares := [],
        both,
        (len(items[0]) - both, len(items[1]) - both),
    )
    attribute = Attributor(*sides, _edits(explained, items, differences))
    aggregation = Attribution(Cause.AGGREGATION)
    by_attribution: dict[Attribution, Share] = {}
    pairs = [(difference.first, difference.second) for difference in differences]
    for difference, places, (one, other) in zip(differences, pairs, explained.read(pairs), strict=True):
        attribution = aggregation if difference.counted else attribute(one, other)
        share = by_attribution.setdefault(attribution, Share(attribution))
        share.points += 100 * difference.part
        share.pairs.append(places)
    # The rest belongs to no single item: the metric weighs items differently.
    if beyond := explained.difference - 100 * (means[1] - means[0]):
        by_attribution.setdefault(aggregation, Share(aggregation)).points += beyond
    causes = list(Cause)
    shares += sorted(
        by_attribution.values(), key=lambda share: (-abs(share.points), causes.index(share.attribution.cause))
    )
    return explained


def _exactly(head: Headline, mean: Fraction) -> Headline:
    """Replaces a result by the exact mean of the items if it equals that mean within `_SAME`."""
    return replace(head, points=mean) if head.result.value is None or abs(head.points - mean) < _SAME else head


def _edits(explained: Explained, items: tuple[Items, Items], differences: Sequence[Difference]) -> Mapping[Edit, int]:
    """Counts the word edits between prompts, over the items with a difference and some others."""
    rows = pair([mine.keys.read() for mine in items])
    others = (mine.places.read()[row][:_MORE_EDITS].tolist() for mine, row in zip(items, rows, strict=True))
    places = {*((difference.first, difference.second) for difference in differences), *zip(*others, strict=True)}
    both = explained.read(sorted(indices for indices in places if NOWHERE not in indices))
    return Counter(edit(one, other) for one, other in both if one and other and prompt(one) != prompt(other))


def _headlines(
    runs: tuple[Run, Run], tasks: tuple[str, str], metrics: Sequence[str], items: tuple[Items, Items]
) -> tuple[Headline, Headline] | str:
    """Returns a task's two results, or the reason why they cannot be compared; the task's name may differ by run.

    If one run is a tool's log and the other has metrics of a task's code, both results are the mean score of the items.
    """
    for run, task in zip(runs, tasks, strict=True):
        if run.identity.get("imported") and not run.tasks[task].get("counts", {}).get("scored", 1):
            return f"{task} is left out: {run.name} has no scores, which `orchestrator import` makes"
    known = [
        [result for result in overall(stored_results({task: run.tasks[task]})) if result.unit in _POINTS]
        for run, task in zip(runs, tasks, strict=True)
    ]
    if not (all(known) or metrics) and any(run.identity.get("imported") for run in runs):
        values = [mine.scores.read() for mine in items]
        if all(len(mine) and mine.min() >= 0 and mine.max() <= 1 for mine in values):
            return _mean_score(tasks[0]), _mean_score(tasks[1])
    if not all(known):
        return f"{tasks[0]} is left out: it has no metric that is a share"
    heads = []
    requested = [*metrics, *metrics][:2] or [known[0][0].name] * 2
    for run, task, results, word in zip(runs, tasks, known, requested, strict=True):
        name, answered = word.removesuffix(_ANSWERED).casefold(), word.endswith(_ANSWERED)
        chosen = [result for result in results if name in (result.name.casefold(), result.metric.casefold())]
        if not chosen and metrics:
            names = ", ".join(result.name for result in results)
            raise ConfigError(
                f"--metric: {run.name} has no {word} of {task}; it has {names}, each also with {_ANSWERED}"
            )
        result = next(chain(chosen, results))
        value = result.answered if answered else result.value
        if value is None:
            return f"{task} is left out: {word} of {run.name} is undefined"
        specs = [spec for spec in run.specs(task) if spec.get("name") == result.name]
        spec = next((spec for spec in specs if spec.get("metric") in scores.PAIRED), {})
        heads.append(Headline(result, Measure(spec, answered), exact(value) * _POINTS[result.unit]))
    return heads[0], heads[1]


def _mean_score(task: str) -> Headline:
    """Returns the mean score of all items as a headline; `divided` computes its value."""
    name = "score of an item"
    result = MetricResult(task, name, "mean", {}, None, None, None, None, 0.0, "", 0, 0, "fraction", {})
    return Headline(result, Measure({}), Fraction(0))


_NO_SETTINGS = frozenset({"boot_id", "capabilities", "max_concurrency", "max_waiting", "max_request_bytes"})
_BY_TASK = ("data", "settings", "metrics")
_RECORDED = ("command", "finish_cut", "scorer", "judges", "metrics", "benchmarks", "versions")


def _facts(read: Sequence[scores.Scores], tasks: Collection[str]) -> dict[str, tuple[Any, Any]]:
    """Returns the settings, versions and code that two runs record for some tasks."""
    both = []
    shared = set.intersection(*(set(side.run.manifest.get("benchmarks") or ()) for side in read))
    for side in read:
        names = {side.tasks.get(task, task): task for task in tasks}
        facts: dict[str, Any] = {name: side.run.manifest.get(name) for name in _RECORDED}
        facts |= {**side.run.identity, "rules": side.rules}
        for name in _BY_TASK:
            facts[name] = {names[task]: value for task, value in (facts.get(name) or {}).items() if task in names}
        facts["benchmarks"] = {name: value for name, value in (facts["benchmarks"] or {}).items() if name in shared}
        facts["model"] = {name: value for name, value in side.run.model.items() if name not in _NO_SETTINGS}
        both.append(scores.flat(facts))
    return {name: (both[0].get(name), both[1].get(name)) for name in dict.fromkeys((*both[0], *both[1]))}
