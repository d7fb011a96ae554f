"""Benchmarks of other evaluation harnesses, run by this engine: `lmms:NAME` and `lm-eval:NAME`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lyncean.plugins import absolute
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean_harnesses.benchmark.lm_eval import LmEvalTask
from lyncean_harnesses.benchmark.lmms import LmmsTask
from lyncean_harnesses.benchmark.task import METRIC, ForeignTask
from lyncean_harnesses.library import HarnessError, harness
from lyncean_harnesses.library.catalogue import Group
from orchestrator.benchmarks import Benchmark, TaskGroup
from orchestrator.samples import metric

GROUP_METRIC = "harness_group"
"""The scorer's metric for groups."""


class HarnessTasks:
    """The tasks of one harness.

    Args:
        name: Their prefix.
        make: Class of its tasks.
    """

    def __init__(self, name: str, make: type[ForeignTask]) -> None:
        self.name = name
        self.make = make

    def find(self, name: str, include: Sequence[str]) -> dict[str, Benchmark]:
        """Returns the benchmark of a task, or those of all tasks of a group or tag.

        Raises:
            HarnessError: The task does not exist or cannot be loaded.
        """
        within = absolute(include)
        members = harness(self.name).members(name, within)
        return {f"{self.name}:{task}": self.make(task, within).benchmark() for task in members}

    def groups(self, name: str, include: Sequence[str]) -> dict[str, TaskGroup]:
        """Returns the groups with metrics over their tasks; a group in another is `OTHER::NAME`."""
        return {
            f"{self.name}:{group.name}": TaskGroup(
                [f"{self.name}:{task}" for task in group.tasks], partial(_metrics, self.name, group)
            )
            for group in harness(self.name).groups(name, absolute(include), functions=False)
        }

    def scored_by_code(self, settings: Mapping[str, str]) -> bool:
        """Returns True: the harness's own code scores."""
        return True

    def runs_text(self, name: str, include: Sequence[str]) -> str:
        """Returns the location at which a task's code runs text as Python, "" if there is none."""
        location: str = harness(self.name).unclosed(name, absolute(include))
        return location

    def why_absent(self) -> str:
        """Returns the reason why the harness cannot be used here, "" if it can."""
        try:
            harness(self.name).version()
        except HarnessError as error:
            return str(error)
        return ""


LMMS = HarnessTasks("lmms", LmmsTask)
LM_EVAL = HarnessTasks("lm-eval", LmEvalTask)


def _metrics(prefix: str, group: Group, of_tasks: Mapping[str, Sequence[scorer.MetricSpec]]) -> list[scorer.MetricSpec]:
    """Returns the metrics of a group: the metrics of its tasks that its configuration combines."""
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
    except Exception:  # the scorer reports what the group's code raises
        listed = group.config["aggregate_metric_list"]
        names = {entry.get("metric") for entry in (listed if isinstance(listed, list) else [listed])}
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
