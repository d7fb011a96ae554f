"""Benchmarks of other evaluation harnesses, run by this engine: `lmms:NAME` and `lm-eval:NAME`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lyncean.harness import folders, harness, split
from lyncean.harness.library import Group
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark, TaskGroup
from orchestrator.benchmarks.harness.lm_eval import LmEvalTask
from orchestrator.benchmarks.harness.lmms import LmmsTask
from orchestrator.benchmarks.harness.task import METRIC
from orchestrator.metric import metric

TASKS = {"lmms": LmmsTask, "lm-eval": LmEvalTask}
"""Prefix -> class of that harness's tasks."""

GROUP_METRIC = "harness_group"
"""The scorer's metric for groups."""


def groups(word: str, include: Sequence[str] = ()) -> dict[str, TaskGroup]:
    """Returns the groups with metrics over their tasks that a word names, a group in another as `OTHER::NAME`.

    Parameters are those of `load`, which has loaded the tasks.
    """
    parts = split(word)
    if parts is None:
        return {}
    prefix, name = parts
    return {
        f"{prefix}:{group.name}": TaskGroup(
            [f"{prefix}:{task}" for task in group.tasks], partial(_metrics, prefix, group)
        )
        for group in harness(prefix).groups(name, folders(include), functions=False)
    }


def _metrics(prefix: str, group: Group, of_tasks: Mapping[str, Sequence[scorer.MetricSpec]]) -> list[scorer.MetricSpec]:
    """Returns a group's metrics: those of its tasks that its configuration combines."""
    specs: dict[str, scorer.MetricSpec] = {}
    values: dict[str, dict[str, float]] = {}
    learned = {}
    for task in group.tasks:
        word = f"{prefix}:{task}"
        for spec in of_tasks[word]:
            if spec.metric == METRIC:
                key = f"{spec.params['metric']},{spec.params['filter']}"
                specs.setdefault(key, spec)
                values.setdefault(task, {})[key] = 1.0
                learned[word] = spec.params["learned"]
    try:
        combined = harness(prefix).combine(group, values, dict.fromkeys(values, 1)).keys()
    except Exception:  # the scorer says what its code raises
        listed = group.config["aggregate_metric_list"]
        names = {each.get("metric") for each in (listed if isinstance(listed, list) else [listed])}
        combined = {key for key in specs if key.rpartition(",")[0] in names}
    return [
        metric(
            spec.name,
            GROUP_METRIC,
            params={
                "group": f"{prefix}:{group.name}",
                "learned": learned,
                "metric": spec.params["metric"],
                "filter": spec.params["filter"],
            },
        )
        for key, spec in specs.items()
        if key in combined
    ]


def load(word: str, include: Sequence[str] = ()) -> dict[str, Benchmark]:
    """Returns the benchmark of each task that a word names, none where it is no foreign task's.

    Args:
        word: For example `lmms:mme`, or a group or tag in its place.
        include: Further folders with configurations of tasks.

    Raises:
        HarnessError: The harness is not installed, or has no such task.
    """
    parts = split(word)
    if parts is None:
        return {}
    prefix, name = parts
    within = folders(include)
    make = TASKS[prefix]
    return {f"{prefix}:{task}": make(task, within).benchmark() for task in harness(prefix).members(name, within)}
