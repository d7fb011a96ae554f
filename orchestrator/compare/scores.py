"""The scores of several runs, paired by the key of the item."""

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
    """What is compared: a metric of a task, or of a group over its tasks."""

    task: str
    metric: str
    group: bool = False

    def __str__(self) -> str:
        return f"{self.task}: {self.metric}" if self.metric else self.task


@dataclass(frozen=True, slots=True)
class Scores:
    """All planned items of a run by task, the metrics that its items make up, and its rules.

    Attributes:
        tasks: Name -> the run's task, of tasks that are paired with other ones by row and have another name for that.
    """

    run: Run
    items: Mapping[str, Items] = field(default_factory=dict)
    steps: Mapping[Step, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)

    def units(self, step: Step, *, questions: bool = False) -> Units:
        """Returns what a step's metric is the mean of: items, or questions with the mean over their repeats."""
        items, spec = self.items[step.task], self.steps[step]
        return items.questions_of(spec) if questions else items.units(spec)

    def repeats(self, step: Step) -> int:
        """Returns how often a question of a step's task was asked at most."""
        return self.items[step.task].repeats

    def by_item(self) -> Scores:
        """Returns the same with the mean score of all items as the only metric of each task."""
        return replace(self, steps={Step(task, "score of an item"): {} for task in self.items})


def named(runs: Sequence[Run]) -> list[Run]:
    """Gives runs of the same folder name, say a/run and b/run, names that tell them apart."""
    names = [run.name for run in runs]
    return [replace(run, name=str(run.path)) if names.count(run.name) > 1 else run for run in runs]


def read(run: Run, named_by: Mapping[str, Callable[[Item], str]] | None = None) -> Scores:
    """Reads the scores of a run; items that are not scored yet are left out.

    Args:
        run: The run.
        named_by: Task -> what returns the name that its items are paired by; only these tasks are read. By default all
            are, and items are paired by key.
    """
    found: dict[str, Gathering] = {}
    known, rules = run.manifest.get("rules") or {}, {}
    for place, item in enumerate(run):
        if (outcome := item.outcome) and outcome != STEP:
            rule = str(item.verdict.get("rule") or item.scoring.get("rule"))
            if rule not in rules:
                rules[rule] = str(known.get(rule, ""))
            task = item.task
            if named_by is not None and task not in named_by:
                continue
            if task not in found:
                naming = {"name": named_by[task]} if named_by else {}
                found[task] = Gathering(_specs(run, task), str(_data(run, task).get("sha256") or task), **naming)
            found[task].add(item, place)
    for each in found.values():
        each.locate(run.index)
    items = {task: each.items() for task, each in found.items()}
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
    for name, found in run.groups.items():
        first: Mapping[str, Any] = next(iter(found["metrics"]), {})
        weights = (first.get("details") or {}).get("weights") or {}
        if weights and weights.keys() <= items.keys() and first["value"] is not None:
            mean = math.fsum(weight * float(items[task].scores.read().mean()) for task, weight in weights.items())
            if math.isclose(mean, first["value"], rel_tol=1e-9):
                yield name, weights


RESULT = "what is a result"
"""Of cautions: what differs where a run's own metrics are in doubt."""

PAIRED = frozenset({"accuracy", "mean", GROUP_ALL})
"""Metrics that are a mean over items or groups, and so can be paired."""


def _specs(run: Run, task: str) -> Sequence[Mapping[str, Any]]:
    return [spec for spec in run.specs(task) if spec.get("metric") in PAIRED] or [{}]


def common(runs: Sequence[Scores], step: Step) -> list[Units]:
    """Returns the units that every run has in a step, in the same order for each; empty where a run lacks the step.

    Where runs repeated the questions unequally often, a unit is a question, and its score the mean over its repeats.
    """
    if not all(step in run.steps for run in runs):
        return []
    if step.group:
        return _common_of_group(runs, runs[0].steps[step]["weights"])
    unequal = len({run.repeats(step) for run in runs}) > 1
    units = [run.units(step, questions=unequal) for run in runs]
    rows = pair([each.names for each in units])
    if all(mine is rows[0] for mine in rows):
        # The same items in the same order, as of most runs: nothing is copied, and names are held once.
        return [replace(each, names=units[0].names, clusters=units[0].clusters) for each in units]
    clusters = units[0].clusters[rows[0]]
    return [Units(each.names[mine], each.scores[mine], clusters) for each, mine in zip(units, rows, strict=True)]


def _common_of_group(runs: Sequence[Scores], weights: Mapping[str, float]) -> list[Units]:
    """Returns the units of a group's tasks, their scores scaled so that their mean is the group's metric."""
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
    """Why two runs are not comparable.

    Attributes:
        what: What differs beside the model, in a few words.
        where: The task or rule in which it does, "" for the runs as a whole.
        text: All of it in a sentence.
    """

    what: str
    where: str
    text: str


def in_one_sentence(cautions: Sequence[Caution]) -> str:
    """Returns the only caution there is, else what differs, each thing named once; "" where nothing does."""
    if len(cautions) == 1:
        return cautions[0].text
    places: dict[str, list[str]] = {}
    for one in cautions:
        places.setdefault(one.what, []).append(one.where)
    named = [what if where == [""] else f"{what} ({_several(where)})" for what, where in places.items()]
    return f"the runs differ in more than the model: {', '.join(named)}" if named else ""


def _several(names: Sequence[str]) -> str:
    found = list(dict.fromkeys(names))
    return ", ".join(found) if len(found) < 4 else f"{', '.join(found[:2])} and {len(found) - 2} more"


_EXPECTED_TO_DIFFER = frozenset({
    "model_name", "model_revision", "chat_template_sha256", "processor_sha256", "model", "share", "items", "repeats"
})  # fmt: skip
"""Parts of the identity that are the comparison itself, or said in a sentence of their own."""


def cautions(first: Scores, second: Scores) -> list[Caution]:
    """Returns why two runs are not comparable; empty where nothing speaks against it."""
    runs = (first.run, second.run)
    found = [
        Caution("how complete they are", run.name, f"{run.name} is not complete: what is not scored yet is left out")
        for run in runs
        if not run.tasks
    ]
    for run in runs:
        found += [Caution(RESULT, run.name, f"{run.name}: {line}") for line in lines(run.tasks, void=True)]
        for note in run.notes:
            if note.comparison:
                text = f"{run.name}: {note.sentence}; {note.comparison['sentence']}"
                found.append(Caution(note.comparison["differs"], run.name, text))
    found += [
        Caution("task", name, f"{task} and {second.tasks[name]} are other tasks, and their items are paired by row")
        for name, task in first.tasks.items()
    ]
    one, other = ({**flat(_identity(each)), **_finished(each.run)} for each in (first, second))
    # A run without tools is the baseline of one with them.
    expected = _EXPECTED_TO_DIFFER | ({"tools"} if any("tools" not in run.identity for run in runs) else set())
    one |= flat({"rules": first.rules})
    other |= flat({"rules": second.rules})
    for name in sorted(one.keys() | other.keys()):
        head, _, rest = name.partition(".")
        if head not in expected and one.get(name) != other.get(name):
            where = rest.partition(".")[0] if head == "data" else rest
            text = f"{name} differs: {_short(one.get(name))} and {_short(other.get(name))}"
            found.append(Caution(head.replace("_", " "), where, text))
    for task in sorted(first.items.keys() | second.items.keys()):
        mine, theirs = first.items.get(task), second.items.get(task)
        shared = _shared(mine, theirs) if mine and theirs else None
        both = shared.items if shared else 0
        only = [len(each or ()) - both for each in (mine, theirs)]
        if mine and theirs and mine.repeats != theirs.repeats:
            repeats = f"{mine.repeats} and {theirs.repeats} times"
            text = f"{task}: questions were asked {repeats}: the score of each is the mean over its repeats"
            found.append(Caution("repeats", task, text))
            asked, both, only = "questions", *_questions(mine, theirs)
        else:
            asked = "items"
        if any(only):
            text = (
                f"{task}: {both:,} {asked} in both, {only[0]:,} only in {first.run.name}, "
                f"{only[1]:,} only in {second.run.name}"
            )
            found.append(Caution("items", task, text))
        if shared is None:
            continue
        if prompts := np.count_nonzero(shared.prompts):
            text = f"{task}: prompt or images differ in {prompts:,} of {both:,} items"
            found.append(Caution("prompt or images", task, text))
        if targets := np.count_nonzero(shared.targets):
            text = f"{task}: targets or options differ in {targets:,} of {both:,} items"
            found.append(Caution("targets or options", task, text))
    return found


def _identity(scores: Scores) -> Mapping[str, Any]:
    """Returns a run's identity with the tasks that are paired by row under their common name."""
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
    """Returns why two runs asked other questions under the same keys, "" where they did not.

    That is so where the data of a task differ, and prompt and target (paired by row: the target) of most of its items.
    Options in another order change both of one question, but not the data.
    """
    for task in sorted(first.items.keys() & second.items.keys()):
        data = [_data(each.run, each.tasks.get(task, task)) for each in (first, second)]
        if data[0].get("sha256") == data[1].get("sha256"):
            continue
        shared = _shared(first.items[task], second.items[task])
        # Two tasks ask about a row in other words, so that there the targets alone tell.
        other = np.count_nonzero(shared.targets if task in first.tasks else shared.prompts & shared.targets)
        if 2 * other > shared.items:
            origins = " and ".join(str(each.get("origin") or "unknown data") for each in data)
            return (
                f"{task}: {other:,} of {shared.items:,} items have the same key in {first.run.name} and "
                f"{second.run.name}, and another prompt and target: the data are {origins}"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Shared:
    """The items of a task that two runs have: how many, and which differ in their prompt or in targets and options."""

    items: int
    prompts: NDArray[np.bool_]
    targets: NDArray[np.bool_]


def _questions(mine: Items, theirs: Items) -> tuple[int, list[int]]:
    """Returns how many questions both have, and how many each has alone."""
    one, other = (np.unique(each.questions.read()) for each in (mine, theirs))
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both, [len(one) - both, len(other) - both]


def _shared(mine: Items, theirs: Items) -> _Shared:
    rows = pair([mine.keys.read(), theirs.keys.read()])
    asked, again = mine.asked.read()[rows[0]], theirs.asked.read()[rows[1]]
    prompts = (asked != again) & (asked != 0) & (again != 0)
    del asked, again
    return _Shared(len(rows[0]), prompts, mine.targets.read()[rows[0]] != theirs.targets.read()[rows[1]])


def _data(run: Run, task: str) -> Mapping[str, Any]:
    return (run.identity.get("data") or {}).get(task) or {}


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as one mapping of dotted names; what is None is left out."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            found |= flat(inner, f"{prefix}{name}.")
        elif inner is not None:
            found[f"{prefix}{name}"] = inner
    return found


def _short(value: Any) -> str:
    text = "none" if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"
