"""lmms-eval's tasks: found, loaded and scored by its own code, unchanged."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean.harness import HarnessError
from lyncean.harness.library import CLOSED, LOADING, NO_KEY, Docs, Index, Library, NoData, line, quiet, replaced_data
from lyncean.harness.library import Scored as BaseScored
from lyncean.harness.library import arguments as arguments
from lyncean.harness.library import state as state

LIBRARY = Library("lmms_eval", "lmms-eval", "lmms", "pip install 'lyncean[lmms]'")
version = LIBRARY.version

SEEDS = (0, 1234)
"""What its evaluator seeds Python's generator of random numbers and NumPy's with, before it reads any data."""


@cache
def _import() -> Any:
    """Imports what tasks need of lmms-eval; its messages to people are for its own command line."""
    version()
    os.environ.setdefault("HF_HOME", str(Path("~/.cache/huggingface").expanduser()))
    if "OPENAI_API_KEY" not in os.environ:
        closed = "http://{}:{}/v1".format(*CLOSED)
        os.environ.update(OPENAI_API_KEY=NO_KEY, OPENAI_BASE_URL=closed, OPENAI_API_URL=closed)
    with LOADING:
        try:
            from loguru import logger

            logger.remove()
            from lmms_eval import utils
            from lmms_eval.api import instance, metrics, reasoning, task
        except ImportError as error:
            raise HarnessError(f"lmms-eval cannot be imported ({line(error)})", fix=LIBRARY.install) from error
    return SimpleNamespace(utils=utils, task=task, instance=instance, reasoning=reasoning, metrics=metrics)


@cache
def index(include: tuple[str, ...] = ()) -> Index:
    """Returns lmms-eval's index of its tasks, groups and tags by name; see `Library.index`."""
    return LIBRARY.index(include, _read_index)


def _read_index(folder: str) -> dict[str, dict[str, Any]]:
    _import()
    from lmms_eval.tasks import TaskManager

    manager = TaskManager(include_defaults=False)
    return {name: dict(entry) for name, entry in manager._get_task_and_group(folder).items()}


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
    listed = entry["task"] if entry["type"] == "tag" else _yaml(entry["yaml_path"], "simple")["task"]
    found: list[str] = []
    for member in listed:
        if not isinstance(member, str):
            raise HarnessError(
                f"group lmms:{name} changes the settings of its members, which is not supported",
                fix="give the tasks one by one",
            )
        found.extend(members(member, include))
    return list(dict.fromkeys(found))


def _yaml(path: str, mode: str) -> dict[str, Any]:
    config: dict[str, Any] = _import().utils.load_yaml_config(path, mode=mode)
    return config


def config(name: str, include: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns a task's configuration with its functions.

    Raises:
        HarnessError: It cannot be loaded; says what it lacks.
    """
    members(name, include)
    with LOADING, quiet():
        try:
            return _yaml(index(include)[name]["yaml_path"], "full")
        except BaseException as error:
            raise LIBRARY.lacking(name, error) from error


def code(name: str, include: tuple[str, ...] = ()) -> str:
    """Returns the sha256 of a task's configuration and of the code beside it."""
    return LIBRARY.code(name, index(include)[name]["yaml_path"])


def load(name: str, include: tuple[str, ...], data: Any | None) -> Any:
    """Returns lmms-eval's own object of a task, its data read and its `process_docs` applied.

    Args:
        name: The task's name.
        include: Further folders with configurations.
        data: Splits by name (a `datasets.DatasetDict`) in place of its own source; None reads its source.

    Raises:
        HarnessError: Something is missing: a package, the data, or what its code expects of the data.
    """
    settings = config(name, include)
    library = _import()

    def read(task: Any, arguments: Any) -> None:
        download = library.task.ConfigurableTask.download.__wrapped__
        with replaced_data(library.task, data):
            download(task, arguments)

    with LOADING, quiet():
        try:
            task = _make(name, settings, read)
            if task.config.num_fewshot is None:
                task.set_config(key="num_fewshot", value=0)
            if task.config.num_fewshot and not hasattr(task, "sampler"):
                # 0.7.3 makes a sampler for a `fewshot_config` alone, and fails on a task with examples and without one.
                from lmms_eval.api.samplers import get_sampler

                task.sampler = get_sampler("default")(list(task.fewshot_docs()), task, rnd=random.Random(1234))
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
        task.dataset = task.dataset_no_image = NoData()

    with LOADING, quiet():
        try:
            task = _make(name, settings, read, scores_only=True)
            for attribute, value in json.loads(learned).items():
                setattr(task, attribute, value)
            _strip_thinking(task)
            return Scored(task, _import().metrics.mean)
        except BaseException as error:
            raise LIBRARY.lacking(name, error) from error


class Scored(BaseScored):
    """The scoring half of a task of lmms-eval."""

    def instance(self, doc: Mapping[str, Any], place: int, responses: list[Any]) -> Any:
        """Returns lmms-eval's object for a request and its responses."""
        return _import().instance.Instance(
            request_type=self._task.OUTPUT_TYPE,
            arguments=(),
            idx=place,
            metadata={"task": self._task.config.task, "doc_id": 0, "repeats": len(responses)},
            resps=responses,
        )

    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""
        for ensemble in self._task._filters:
            ensemble.apply(instances, Docs([doc] * len(instances)))

    def process(self, doc: Mapping[str, Any], filtered: list[Any]) -> Mapping[str, Any]:
        """Returns what `process_results` returns, as lmms-eval's evaluator calls it."""
        reasoning = _import().reasoning
        tags = reasoning.parse_reasoning_tags_config(task_value=getattr(self._task.config, "reasoning_tags", None))
        if tags is not None:
            filtered = [_stripped(response, tags, reasoning.strip_reasoning_tags) for response in filtered]
        if self._task.OUTPUT_TYPE == "loglikelihood" and len(filtered) == 1:
            filtered = list(filtered[0])  # what its process_results takes apart
        results: Mapping[str, Any] = self._task.process_results(doc, filtered)
        return results

    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns what its models return of continuations: the mean loss of a token, and whether it is greedy."""
        return [(-logprob / tokens, greedy) for logprob, tokens, greedy in scores]


def _stripped(response: Any, tags: Any, strip: Callable[[str, Any], str]) -> Any:
    if isinstance(response, list):
        return [strip(each, tags) if isinstance(each, str) else each for each in response]
    return strip(response, tags) if isinstance(response, str) else response


def _make(name: str, settings: dict[str, Any], read: Callable[[Any, Any], None], scores_only: bool = False) -> Any:
    task = _task_class().__new__(_task_class())
    task.read_data, task.scores_only = read, scores_only
    task.__init__(config={**settings, "task": name})
    task.scores_only = False
    return task


@cache
def _task_class() -> Any:
    library = _import()
    base = library.task.ConfigurableTask

    class Task(library.task.ConfigurableMessagesTask):  # type: ignore[name-defined, misc]
        """lmms-eval's task, its data from elsewhere, and without the pauses of its retries."""

        read_data: Any
        scores_only: bool

        def download(self, dataset_kwargs: Any = None) -> None:
            self.read_data(self, dataset_kwargs)

        def process_results(self, doc: Any, results: Any, full_docs: Any = None) -> Any:
            return base.process_results.__wrapped__(self, doc, results, full_docs)

        def doc_to_text(self, doc: Any) -> Any:
            return "" if self.scores_only else super().doc_to_text(doc)

        def doc_to_target(self, doc: Any) -> Any:
            return "" if self.scores_only else super().doc_to_target(doc)

        def doc_to_choice(self, doc: Any) -> Any:
            return ["A"] if self.scores_only else super().doc_to_choice(doc)

    return Task


def _strip_thinking(task: Any) -> None:
    """Does what lmms-eval's evaluator does to the filters of a task that asks for it."""
    if not getattr(task.config, "auto_strip_thinking", False) or getattr(task.config, "reasoning_tags", None):
        return
    from lmms_eval.filters.transformation import StripThinkingFilter

    for ensemble in task._filters:
        ensemble.filters.insert(0, StripThinkingFilter())
