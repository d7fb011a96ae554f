"""lm-evaluation-harness' tasks: its own code, unchanged, finds, loads and scores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean_harnesses.library.catalogue import Group
from lyncean_harnesses.library.library import Library, Values
from lyncean_harnesses.library.scored import Docs, OurTask, Scored

_TYPES = {"PY_TASK": "python_task", "TASK": "task", "GROUP": "group", "TAG": "tag"}


class _Scored(Scored):
    """The scoring half of a task of lm-evaluation-harness."""

    def instance(self, doc: Mapping[str, Any], index: int, responses: list[Any]) -> Any:
        """Returns the harness's object for a request and its responses."""
        kind = "loglikelihood" if self._task.OUTPUT_TYPE == "multiple_choice" else self._task.OUTPUT_TYPE
        about = (self._task.config.task, 0, len(responses))
        return self._modules.instance.Instance(kind, doc, (), index, metadata=about, resps=responses)

    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""
        for ensemble in self._task._filters:
            ensemble.apply(instances)

    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns scores of continuations as its models do: the log-probability, and whether it is greedy."""
        return [(logprob, greedy) for logprob, _, greedy in scores]


class LmEval(Library):
    """lm-evaluation-harness."""

    package = "lm_eval"
    title = "lm-evaluation-harness"
    prefix = "lm-eval"
    install = "pip install 'lyncean[lm-eval]'"
    seeds = (0, 1234)
    scored_task = _Scored
    programs = frozenset(
        {
            *("cruxeval", "humaneval", "humaneval_infilling", "mbpp"),  # processes, in which answers run
            "longproc",  # a compiler and its output
        }
    )

    def imported(self) -> SimpleNamespace:
        """Imports the modules that tasks need."""
        from lm_eval.api import group, instance, metrics, task
        from lm_eval.tasks import _index, _yaml_loader

        return SimpleNamespace(
            task=task, group=group, instance=instance, metrics=metrics, index=_index, yaml=_yaml_loader
        )

    def read_index(self, folder: str) -> dict[str, dict[str, Any]]:
        """Returns its index of a folder."""
        index: dict[str, dict[str, Any]] = {}
        for name, entry in self.modules.index.TaskIndex.build([Path(folder)]).items():
            kind = _TYPES.get(entry.kind.name, "unknown")
            index[name] = {"type": kind, "yaml_path": str(entry.yaml_path or "")}
            if kind == "tag":
                index[name]["task"] = sorted(entry.tags)
        return index

    def read_yaml(self, path: str, *, functions: bool) -> dict[str, Any]:
        """Returns the configuration of a task or group."""
        config: dict[str, Any] = self.modules.yaml.load_yaml(path, resolve_func=functions)
        return config

    def combine(self, group: Group, values: Values, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns a group's metrics, by `lm_eval.api.group.Group.aggregate`."""
        known = self.modules.group.GroupConfig.__dataclass_fields__
        native = self.modules.group.Group.from_config({**group.own(known), "group": group.name})
        for task in group.tasks:
            native.add(self.named(task))
        results = {task: {**metrics, "sample_len": sizes[task]} for task, metrics in values.items()}
        combined: Mapping[str, Any] = native.aggregate(results)
        return combined

    def size(self, counts: Sequence[int]) -> int:
        """Returns the largest number of values of a metric."""
        return max(counts)

    def download(self, task: Any, arguments: Any) -> None:
        """Has a task read its data."""
        self.modules.task.ConfigurableTask.download(task, arguments)

    def task_class(self) -> type[Any]:
        """Returns its class of tasks."""

        class Task(OurTask, self.modules.task.ConfigurableTask):  # type: ignore[misc, name-defined]
            """The harness's task, its data from elsewhere."""

            @property
            def eval_docs(self) -> Any:
                return Docs([{}]) if self.scores_only else super().eval_docs

            def fewshot_docs(self) -> Any:
                return None if self.scores_only else super().fewshot_docs()

        return Task


LIBRARY = LmEval()
