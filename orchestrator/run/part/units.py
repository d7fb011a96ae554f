"""Units of a run of a part of its samples: groups that are drawn as one, with the scores that the metric takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from msgspec import UNSET

from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.errors import ConfigError
from orchestrator.run.plan import Plan
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import RESPONSES, VERDICTS
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.lines import SampleLine, VerdictLine
from orchestrator.run_folder.scanning import lines_at
from orchestrator.samples import Sample

METRICS = frozenset({"accuracy", "mean", "group_all"})
"""Metrics that are a mean over items or groups."""
NO_RESULT = (Outcome.FAILED, Outcome.UNJUDGED)
"""Outcomes without an answer of the model: a unit that has one waits."""


@dataclass(slots=True)
class UnitItem:
    """An item that may count: its repeat, whether the metric takes it, and its score once there is a verdict."""

    repeat: int
    counts: bool
    score: float | None = None
    base: float = 0.0
    has_result: bool = True


@dataclass(slots=True)
class Unit:
    """Samples that share a group, with their items by key."""

    samples: list[Sample] = field(default_factory=list)
    items: dict[str, UnitItem] = field(default_factory=dict)

    @property
    def without_result(self) -> int:
        """Items without an answer of the model."""
        return sum(not item.has_result for item in self.items.values())

    def sums(self, spec: scorer.MetricSpec) -> tuple[float, float, int]:
        """Returns total score, total of the other run and size, as the metric counts them."""
        counted = [item for item in self.items.values() if item.counts]
        if spec.metric != "group_all":
            return sum(i.score or 0.0 for i in counted), sum(i.base for i in counted), len(counted)
        repeats = {item.repeat for item in counted}
        right, base = dict.fromkeys(repeats, True), dict.fromkeys(repeats, True)
        for item in counted:
            right[item.repeat] &= item.score == 1.0
            base[item.repeat] &= item.base == 1.0
        return float(sum(right.values())), float(sum(base.values())), len(repeats)


def specs_of(plan: Plan, option: str) -> dict[str, scorer.MetricSpec]:
    """Returns each task's primary metric: the first that is a mean over items or groups.

    Args:
        plan: The run's plan.
        option: The option that needs it, for messages.

    Raises:
        ConfigError: If a task has none.
    """
    primary = {}
    for task, specs in plan.metrics().items():
        spec = next((spec for spec in specs if spec.metric in METRICS), None)
        if spec is None:
            raise ConfigError(f"{option} needs an accuracy or a mean, and {task} has none: leave it out")
        primary[task] = spec
    return primary


def units_of(plan: Plan, specs: Mapping[str, scorer.MetricSpec], option: str) -> dict[str, dict[str, Unit]]:
    """Returns the units of each task by name.

    Args:
        plan: The run's plan.
        specs: Each task's metric.
        option: The option that asks for units, for messages.

    Raises:
        ConfigError: If a sample's items are of several groups, or a task has no items for its metric.
        DataError: If a row cannot be used.
    """
    units_by_task = {task: dict[str, Unit]() for task in plan.names}
    for sample in plan.samples():
        task = sample.key.split("/", 1)[0]
        scorings = {sample.item_key(turn): turn.scoring for turn in sample.turns if turn.scoring}
        names = {unit_of(sample.key, scoring.group) for scoring in scorings.values()} or {unit_of(sample.key, "")}
        if len(names) > 1:
            raise ConfigError(
                f"{option} asks the items of a group together, and sample {sample.key} has items of the groups "
                f"{', '.join(sorted(names))}: leave it out"
            )
        unit = units_by_task[task].setdefault(names.pop(), Unit())
        unit.samples.append(sample)
        for key, scoring in scorings.items():
            unit.items[key] = UnitItem(split_repeat(key)[1], counts(specs[task], scoring.labels))
    for task, units in units_by_task.items():
        if not any(unit.sums(specs[task])[2] for unit in units.values()):
            raise ConfigError(f"{option}: {task} has no items for {specs[task].name}: leave it out")
    return units_by_task


def unit_of(sample: str, group: str) -> str:
    """Returns the name of the unit of an item: its group, or its sample without the repeat."""
    return group or split_repeat(sample)[0]


def counts(spec: scorer.MetricSpec, labels: Mapping[str, str]) -> bool:
    """Returns whether a metric takes an item with these labels."""
    return all(not condition.values or labels.get(label) in condition.values for label, condition in spec.where.items())


def value_of(spec: scorer.MetricSpec, verdict: Mapping[str, Any]) -> float:
    """Returns the value that a metric takes from a verdict's fields; 0 without a score, as over all samples."""
    part = spec.params.fields["part"].string_value if "part" in spec.params.fields else ""
    value = (verdict.get("scores") or {}).get(part) if part else verdict.get("score")
    return float(value or 0.0)


def rank(seed: int, task: str, unit: str) -> bytes:
    """Returns a unit's rank in the order of a seed; the same on every machine."""
    return hashlib.blake2b(f"{seed}|{task}|{unit}".encode(), digest_size=16).digest()


def logged_units(
    run: Path, metrics: Mapping[str, Any]
) -> Iterator[tuple[str, scorer.MetricSpec, dict[str, Unit], int]]:
    """Yields each task, its metric, its units by name with their scores, and its samples, from the folder alone.

    Args:
        run: The run folder, every item settled.
        metrics: Task -> its metric as JSON.

    Raises:
        RunLogError: If an item has a verdict and no response.
    """
    index = Index(run)
    responses, verdicts = index.by_task(index.responses), index.by_task(index.verdicts)
    for task, metric in sorted(metrics.items()):
        spec = json_format.ParseDict(metric, scorer.MetricSpec())
        members = {line.key: line.sample for line in lines_at(run / RESPONSES, responses.get(task, ()), SampleLine)}
        units, samples = dict[str, Unit](), set[str]()
        for line in lines_at(run / VERDICTS, verdicts.get(task, ()), VerdictLine):
            if line.key not in members:
                raise RunLogError(f"{run / RESPONSES} has no line of {line.key!r}, which has a verdict: restore it")
            item = UnitItem(split_repeat(line.key)[1], counts(spec, line.labels), value_of(spec, score_fields(line)))
            item.has_result = line.outcome not in NO_RESULT
            samples.add(sample := members[line.key])
            units.setdefault(unit_of(sample, line.group), Unit()).items[line.key] = item
        yield task, spec, units, len(samples)


def score_fields(line: VerdictLine) -> dict[str, Any]:
    """Returns the fields of a verdict that `value_of` takes."""
    return {"score": None if line.score is UNSET else line.score, "scores": line.scores}
