"""lm-evaluation-harness' tasks: found, loaded and scored by its own code, unchanged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean.harness import HarnessError
from lyncean.harness.library import LOADING, Docs, Index, Library, NoData, line, quiet, replaced_data
from lyncean.harness.library import Scored as BaseScored
from lyncean.harness.library import state as state

LIBRARY = Library("lm_eval", "lm-evaluation-harness", "lm-eval", "pip install 'lyncean[lm-eval]'")
version = LIBRARY.version

SEEDS = (0, 1234)
"""What its evaluator seeds Python's generator of random numbers and NumPy's with, before it reads any data."""

_TYPES = {"PY_TASK": "python_task", "TASK": "task", "GROUP": "group", "TAG": "tag"}


@cache
def _import() -> Any:
    version()
    os.environ.setdefault("HF_HOME", str(Path("~/.cache/huggingface").expanduser()))
    with LOADING:
        try:
            from lm_eval.api import instance, metrics, task
            from lm_eval.tasks import _index, _yaml_loader
        except ImportError as error:
            raise HarnessError(f"{LIBRARY.title} cannot be imported ({line(error)})", fix=LIBRARY.install) from error
    return SimpleNamespace(task=task, instance=instance, metrics=metrics, index=_index, yaml=_yaml_loader)


@cache
def index(include: tuple[str, ...] = ()) -> Index:
    """Returns its index of tasks, groups and tags by name; see `Library.index`."""
    return LIBRARY.index(include, _read_index)


def _read_index(folder: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, entry in _import().index.TaskIndex.build([Path(folder)]).items():
        kind = _TYPES.get(entry.kind.name, "unknown")
        found[name] = {"type": kind, "yaml_path": str(entry.yaml_path)}
        if kind == "group":
            found[name]["task"] = (entry.cfg or {}).get("task", [])
        for tag in entry.tags if kind in ("task", "python_task") else ():
            found.setdefault(tag, {"type": "tag", "yaml_path": "", "task": []}).setdefault("task", []).append(name)
        if kind == "tag":
            found[name].setdefault("task", [])
    return found


def members(name: str, include: tuple[str, ...] = ()) -> list[str]:
    """Returns the tasks that a name stands for: itself, or those of a group or tag.

    Raises:
        HarnessError: There is none of this name, or a member is not a plain task.
    """
    known = index(include)
    if name not in known:
        raise LIBRARY.unknown(name, known)
    entry = known[name]
    if entry["type"] in ("task", "python_task"):
        return [name]
    listed = entry.get("task") or []
    found: list[str] = []
    for member in [listed] if isinstance(listed, str) else listed:
        if not isinstance(member, str):
            raise HarnessError(
                f"group {LIBRARY.prefix}:{name} changes the settings of its members, which is not supported",
                fix="give the tasks one by one",
            )
        found.extend(members(member, include))
    return list(dict.fromkeys(found))


def config(name: str, include: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns a task's configuration with its functions.

    Raises:
        HarnessError: It cannot be loaded; says what it lacks.
    """
    members(name, include)
    with LOADING, quiet():
        try:
            found: dict[str, Any] = _import().yaml.load_yaml(index(include)[name]["yaml_path"], resolve_func=True)
            return found
        except BaseException as error:
            raise LIBRARY.lacking(name, error) from error


def code(name: str, include: tuple[str, ...] = ()) -> str:
    """Returns the sha256 of a task's configuration and of the code beside it."""
    return LIBRARY.code(name, index(include)[name]["yaml_path"])


def load(name: str, include: tuple[str, ...], data: Any | None) -> Any:
    """Returns the harness's own object of a task with its data.

    Args:
        name: The task's name.
        include: Further folders with configurations.
        data: Splits by name (a `datasets.DatasetDict`) in place of its own source; None reads its source.

    Raises:
        HarnessError: Something is missing: a package, the data, or what its code expects of the data.
    """
    settings = config(name, include)
    module = _import().task

    def read(task: Any, arguments: Any) -> None:
        with replaced_data(module, data):
            module.ConfigurableTask.download(task, arguments)

    with LOADING, quiet():
        try:
            task = _make(name, settings, read)
            if task.config.num_fewshot is None:
                task.set_config(key="num_fewshot", value=0)
            return task
        except BaseException as error:
            raise LIBRARY.lacking(name, error) from error


@cache
def scored(name: str, include: tuple[str, ...], learned: str) -> Scored:
    """Returns the scoring half of a task.

    Args:
        name: The task's name.
        include: Further folders with configurations.
        learned: What `state` returned, as JSON.

    Raises:
        HarnessError: It cannot be loaded.
    """
    settings = config(name, include)

    def read(task: Any, _: Any) -> None:
        task.dataset = NoData()

    with LOADING, quiet():
        try:
            task = _make(name, settings, read, scores_only=True)
            for attribute, value in json.loads(learned).items():
                setattr(task, attribute, value)
            return Scored(task, _import().metrics.mean)
        except BaseException as error:
            raise LIBRARY.lacking(name, error) from error


class Scored(BaseScored):
    """The scoring half of a task of lm-evaluation-harness."""

    def instance(self, doc: Mapping[str, Any], place: int, responses: list[Any]) -> Any:
        """Returns the harness's object for a request and its responses."""
        kind = "loglikelihood" if self._task.OUTPUT_TYPE == "multiple_choice" else self._task.OUTPUT_TYPE
        about = (self._task.config.task, 0, len(responses))
        return _import().instance.Instance(kind, doc, (), place, metadata=about, resps=responses)

    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""
        for ensemble in self._task._filters:
            ensemble.apply(instances)

    def process(self, doc: Mapping[str, Any], filtered: list[Any]) -> Mapping[str, Any]:
        """Returns what `process_results` returns."""
        results: Mapping[str, Any] = self._task.process_results(doc, filtered)
        return results

    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns what its models return of continuations: the log-probability, and whether it is greedy."""
        return [(logprob, greedy) for logprob, _, greedy in scores]


def _make(name: str, settings: dict[str, Any], read: Callable[[Any, Any], None], scores_only: bool = False) -> Any:
    task = _task_class().__new__(_task_class())
    task.read_data, task.scores_only = read, scores_only
    task.__init__(config={**settings, "task": name})
    task.scores_only = False
    return task


@cache
def _task_class() -> Any:
    class Task(_import().task.ConfigurableTask):  # type: ignore[misc]
        """The harness's task, its data from elsewhere."""

        read_data: Any
        scores_only: bool

        def download(self, dataset_kwargs: Any = None, **_: Any) -> None:
            self.read_data(self, dataset_kwargs)

        @property
        def eval_docs(self) -> Any:
            return Docs([{}]) if self.scores_only else super().eval_docs

        def fewshot_docs(self) -> Any:
            return None if self.scores_only else super().fewshot_docs()

        def doc_to_text(self, doc: Any, *more: Any, **named: Any) -> Any:
            return "" if self.scores_only else super().doc_to_text(doc, *more, **named)

        def doc_to_target(self, doc: Any, *more: Any, **named: Any) -> Any:
            return "" if self.scores_only else super().doc_to_target(doc, *more, **named)

        def doc_to_choice(self, doc: Any, *more: Any, **named: Any) -> Any:
            return ["A"] if self.scores_only else super().doc_to_choice(doc, *more, **named)

    return Task
