"""Scores of runs, paired by the key of the item."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.compare.items import GROUP_ALL, Gathering, Items, Units, pair
from orchestrator.run_folder.reader import STEP, Item, Run
from orchestrator.run_folder.validity import lines


@dataclass(frozen=True, slots=True)
class Step:
    """The unit of comparison: a metric of a task, or of a group over its tasks."""

    task: str
    metric: str
    group: bool = False

    def __str__(self) -> str:
        return f"{self.task}: {self.metric}" if self.metric else self.task


@dataclass(frozen=True, slots=True)
class Scores:
    """All planned items of a run by task, the metrics over these items, and the run's rules.

    Attributes:
        tasks: Name -> the run's task, for tasks that are renamed because they are paired by row.
    """

    run: Run
    items: Mapping[str, Items] = field(default_factory=dict)
    steps: Mapping[Step, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)

    def units(self, step: Step, *, questions: bool = False) -> Units:
        """Returns the units of a step's metric: items, or questions with the mean over their repeats."""
        items, spec = self.items[step.task], self.steps[step]
        return items.questions_of(spec) if questions else items.units(spec)

    def repeats(self, step: Step) -> int:
        """Returns the largest number of repeats of a question in a step's task."""
        return self.items[step.task].repeats

    def by_item(self) -> Scores:
        """Returns a copy in which the mean score of all items is the only metric of each task."""
        return replace(self, steps={Step(task, "score of an item"): {} for task in self.items})


def named(runs: Sequence[Run]) -> list[Run]:
    """Gives distinct names to runs whose folders have the same name, such as a/run and b/run."""
    names = [run.name for run in runs]
    return [replace(run, name=str(run.path)) if names.count(run.name) > 1 else run for run in runs]


def read(run: Run, named_by: Mapping[str, Callable[[Item], str]] | None = None) -> Scores:
    """Reads the scores of a run, without items that are not scored yet.

    Args:
        run: The run.
        named_by: Task -> function that returns the name by which an item is paired; only these tasks are read. By
            default all tasks are read, and items are paired by key.
    """
    gatherings: dict[str, Gathering] = {}
    known, rules = run.manifest.get("rules") or {}, {}
    for index, item in enumerate(run):
        if (outcome := item.outcome) and outcome != STEP:
            rule = str(item.verdict.get("rule") or item.scoring.get("rule"))
            if rule not in rules:
                rules[rule] = str(known.get(rule, ""))
            task = item.task
            if named_by is not None and task not in named_by:
                continue
            if task not in gatherings:
                naming = {"name": named_by[task]} if named_by else {}
                gatherings[task] = Gathering(_specs(run, task), str(_data(run, task).get("sha256") or task), **naming)
            gatherings[task].add(item, index)
    for gathering in gatherings.values():
        gathering.locate(run.index)
    items = {task: gathering.items() for task, gathering in gatherings.items()}
    steps = {
        Step(task, str(spec.get("name", ""))): spec
        for task, mine in items.items()
        for spec in _specs(run, task)
        if mine.has(spec)
    }
    groups: dict[Step, Mapping[str, Any]] = {
        Step(name, "", group=True): {"weights": weights} for name, weights in _groups(run, items)
    }
    return Scores(run, items, groups | steps, rules)


def _groups(run: Run, items: Mapping[str, Items]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yields the groups whose first metric is a weighted mean of all scores, with the weights of their tasks."""
    for name, group in run.groups.items():
        first: Mapping[str, Any] = next(iter(group["metrics"]), {})
        weights = (first.get("details") or {}).get("weights") or {}
        if weights and weights.keys() <= items.keys() and first["value"] is not None:
            mean = math.fsum(weight * float(items[task].scores.read().mean()) for task, weight in weights.items())
            if math.isclose(mean, first["value"], rel_tol=1e-9):
                yield name, weights


RESULT = "what is a result"
"""`Caution.what` of a run whose metrics are void."""

PAIRED = frozenset({"accuracy", "mean", GROUP_ALL})
"""Metrics that can be paired because they are a mean over items or groups."""


def _specs(run: Run, task: str) -> Sequence[Mapping[str, Any]]:
    return [spec for spec in run.specs(task) if spec.get("metric") in PAIRED] or [{}]


def common(runs: Sequence[Scores], step: Step) -> list[Units]:
    """Returns the units that all runs have in a step, in the same order; empty if a run lacks the step.

    If the runs have different numbers of repeats, a unit is a question, and its score is the mean over its repeats.
    """
    if not all(step in run.steps for run in runs):
        return []
    if step.group:
        return _common_of_group(runs, runs[0].steps[step]["weights"])
    unequal = len({run.repeats(step) for run in runs}) > 1
    units = [run.units(step, questions=unequal) for run in runs]
    rows = pair([side.names for side in units])
    if all(mine is rows[0] for mine in rows):
        # Most runs have the same items in the same order: nothing is copied, and names are held once.
        return [replace(side, names=units[0].names, clusters=units[0].clusters) for side in units]
    clusters = units[0].clusters[rows[0]]
    return [Units(side.names[mine], side.scores[mine], clusters) for side, mine in zip(units, rows, strict=True)]


def _common_of_group(runs: Sequence[Scores], weights: Mapping[str, float]) -> list[Units]:
    """Returns the units of a group's tasks with scores scaled so that their mean is the group's metric."""
    tasks = [common(runs, Step(task, "")) for task in weights]
    if not all(units and len(units[0].names) for units in tasks):
        return []
    total = sum(len(units[0].names) for units in tasks)
    scales = [weight * total / len(units[0].names) for weight, units in zip(weights.values(), tasks, strict=True)]
    scales = [1.0 if math.isclose(scale, 1.0, rel_tol=1e-9) else scale for scale in scales]
    return [
        Units(
            np.concatenate([units[at].names for units in tasks]),
            np.concatenate([units[at].scores * scale for units, scale in zip(tasks, scales, strict=True)]),
            np.concatenate([units[at].clusters for units in tasks]),
        )
        for at in range(len(runs))
    ]


class Caution(NamedTuple):
    """A reason why two runs are not comparable.

    Attributes:
        what: The difference other than the model, in a few words.
        where: The task or rule that differs, "" for the runs as a whole.
        text: The reason as a sentence.
    """

    what: str
    where: str
    text: str


def in_one_sentence(cautions: Sequence[Caution]) -> str:
    """Returns the text of a single caution, else a list of all distinct differences; "" without cautions."""
    if len(cautions) == 1:
        return cautions[0].text
    places: dict[str, list[str]] = {}
    for one in cautions:
        places.setdefault(one.what, []).append(one.where)
    named = [
        difference if where == [""] else f"{difference} ({_several(where)})" for difference, where in places.items()
    ]
    return f"the runs differ in more than the model: {', '.join(named)}" if named else ""


def _several(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct) if len(distinct) < 4 else f"{', '.join(distinct[:2])} and {len(distinct) - 2} more"


_EXPECTED_TO_DIFFER = frozenset({
    "model_name", "model_revision", "chat_template_sha256", "processor_sha256", "model", "share", "items", "repeats"
})  # fmt: skip
"""Parts of the identity that are the object of the comparison, or have a caution of their own."""


def cautions(first: Scores, second: Scores) -> list[Caution]:
    """Returns the reasons why two runs are not comparable; empty if there are none."""
    runs = (first.run, second.run)
    warnings = [
        Caution("how complete they are", run.name, f"{run.name} is not complete: what is not scored yet is left out")
        for run in runs
        if not run.tasks
    ]
    for run in runs:
        warnings += [Caution(RESULT, run.name, f"{run.name}: {line}") for line in lines(run.tasks, void=True)]
        for note in run.notes:
            if note.comparison:
                text = f"{run.name}: {note.sentence}; {note.comparison['sentence']}"
                warnings.append(Caution(note.comparison["differs"], run.name, text))
    warnings += [
        Caution("task", name, f"{task} and {second.tasks[name]} are other tasks, and their items are paired by row")
        for name, task in first.tasks.items()
    ]
    one, other = ({**flat(_identity(side)), **_finished(side.run)} for side in (first, second))
    # A run without tools is a baseline for one with tools.
    expected = _EXPECTED_TO_DIFFER | ({"tools"} if any("tools" not in run.identity for run in runs) else set())
    one |= flat({"rules": first.rules})
    other |= flat({"rules": second.rules})
    for name in sorted(one.keys() | other.keys()):
        head, _, rest = name.partition(".")
        if head not in expected and one.get(name) != other.get(name):
            where = rest.partition(".")[0] if head == "data" else rest
            text = f"{name} differs: {_short(one.get(name))} and {_short(other.get(name))}"
            warnings.append(Caution(head.replace("_", " "), where, text))
    for task in sorted(first.items.keys() | second.items.keys()):
        mine, theirs = first.items.get(task), second.items.get(task)
        shared = _shared(mine, theirs) if mine and theirs else None
        both = shared.items if shared else 0
        only = [len(side or ()) - both for side in (mine, theirs)]
        if mine and theirs and mine.repeats != theirs.repeats:
            repeats = f"{mine.repeats} and {theirs.repeats} times"
            text = f"{task}: questions were asked {repeats}: the score of each is the mean over its repeats"
            warnings.append(Caution("repeats", task, text))
            noun, both, only = "questions", *_questions(mine, theirs)
        else:
            noun = "items"
        if any(only):
            text = (
                f"{task}: {both:,} {noun} in both, {only[0]:,} only in {first.run.name}, "
                f"{only[1]:,} only in {second.run.name}"
            )
            warnings.append(Caution("items", task, text))
        if shared is None:
            continue
        if prompts := np.count_nonzero(shared.prompts):
            text = f"{task}: prompt or images differ in {prompts:,} of {both:,} items"
            warnings.append(Caution("prompt or images", task, text))
        if targets := np.count_nonzero(shared.targets):
            text = f"{task}: targets or options differ in {targets:,} of {both:,} items"
            warnings.append(Caution("targets or options", task, text))
    return warnings


def _identity(scores: Scores) -> Mapping[str, Any]:
    """Returns a run's identity with common names for tasks that are paired by row."""
    names = {task: name for name, task in scores.tasks.items()}
    if not names:
        return scores.run.identity
    by_task = {
        part: {names[task]: value for task, value in (scores.run.identity.get(part) or {}).items() if task in names}
        for part in ("settings", "data")
    }
    return {**scores.run.identity, **by_task, "tasks": None}


def _finished(run: Run) -> dict[str, int]:
    return {"deviations.finish_cut": run.finish_cut} if run.finish_cut else {}


def other_questions(first: Scores, second: Scores) -> str:
    """Returns the evidence that two runs have other questions under the same keys, "" if there is none.

    The data of a task must differ, as must prompt and target (paired by row: the target) of most of its items.
    Options in another order change prompt and target of a question, but not the data.
    """
    for task in sorted(first.items.keys() & second.items.keys()):
        data = [_data(side.run, side.tasks.get(task, task)) for side in (first, second)]
        if data[0].get("sha256") == data[1].get("sha256"):
            continue
        shared = _shared(first.items[task], second.items[task])
        # Two tasks have different prompts for a row, so only the targets can tell.
        other = np.count_nonzero(shared.targets if task in first.tasks else shared.prompts & shared.targets)
        if 2 * other > shared.items:
            origins = " and ".join(str(side.get("origin") or "unknown data") for side in data)
            return (
                f"{task}: {other:,} of {shared.items:,} items have the same key in {first.run.name} and "
                f"{second.run.name}, and another prompt and target: the data are {origins}"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Shared:
    """The items of a task that two runs share: their number, and which differ in prompt or in targets and options."""

    items: int
    prompts: NDArray[np.bool_]
    targets: NDArray[np.bool_]


def _questions(mine: Items, theirs: Items) -> tuple[int, list[int]]:
    """Returns the number of questions that both have, and that only one of them has."""
    one, other = (np.unique(side.questions.read()) for side in (mine, theirs))
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both, [len(one) - both, len(other) - both]


def _shared(mine: Items, theirs: Items) -> _Shared:
    rows = pair([mine.keys.read(), theirs.keys.read()])
    hashes, other_hashes = mine.asked.read()[rows[0]], theirs.asked.read()[rows[1]]
    prompts = (hashes != other_hashes) & (hashes != 0) & (other_hashes != 0)
    del hashes, other_hashes
    return _Shared(len(rows[0]), prompts, mine.targets.read()[rows[0]] != theirs.targets.read()[rows[1]])


def _data(run: Run, task: str) -> Mapping[str, Any]:
    return (run.identity.get("data") or {}).get(task) or {}


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested settings into one mapping of dotted names, without None."""
    flattened: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            flattened |= flat(inner, f"{prefix}{name}.")
        elif inner is not None:
            flattened[f"{prefix}{name}"] = inner
    return flattened


def _short(value: Any) -> str:
    text = "none" if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"
