"""lmms-eval's tasks: its own code, unchanged, finds, loads and scores them."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from lyncean_harnesses.library import judge_url
from lyncean_harnesses.library.catalogue import Group
from lyncean_harnesses.library.library import Library, Values
from lyncean_harnesses.library.scored import Docs, OurTask, Scored


class _Scored(Scored):
    """The scoring half of a task of lmms-eval."""

    def instance(self, doc: Mapping[str, Any], index: int, responses: list[Any]) -> Any:
        """Returns lmms-eval's object for a request and its responses."""
        return self._modules.instance.Instance(
            request_type=self._task.OUTPUT_TYPE,
            arguments=(),
            idx=index,
            metadata={"task": self._task.config.task, "doc_id": 0, "repeats": len(responses)},
            resps=responses,
        )

    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""
        for ensemble in self._task._filters:
            ensemble.apply(instances, Docs([doc] * len(instances)))

    def process(self, doc: Mapping[str, Any], filtered: list[Any]) -> Mapping[str, Any]:
        """Returns the result of `process_results`, called as lmms-eval's evaluator calls it."""
        reasoning = self._modules.reasoning
        tags = reasoning.parse_reasoning_tags_config(task_value=getattr(self._task.config, "reasoning_tags", None))
        if tags is not None:
            filtered = [_stripped(response, tags, reasoning.strip_reasoning_tags) for response in filtered]
        if self._task.OUTPUT_TYPE == "loglikelihood" and len(filtered) == 1:
            filtered = list(filtered[0])  # its process_results unpacks the list
        return super().process(doc, filtered)

    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns scores of continuations as its models do: the mean loss per token, and whether it is greedy."""
        return [(-logprob / tokens, greedy) for logprob, tokens, greedy in scores]


def _function_beside(real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Also looks for a function of a configuration in the parent folder.

    In 0.7.3 variants of tasks have a folder and a module of their own, and name functions of the module above.
    """

    def construct(loader: Any, node: Any) -> Any:
        try:
            return real(loader, node)
        except AttributeError as error:
            above = Path(loader.name).parent.parent / Path(loader.name).name
            try:
                return real(SimpleNamespace(name=str(above), construct_scalar=loader.construct_scalar), node)
            except (ImportError, AttributeError):
                raise error from None

    return construct


def _without_azure() -> ModuleType:
    """Returns a module that tasks of 0.7.3 import and its wheel lacks; it reports that Azure is not supported."""
    module = ModuleType("lmms_eval.azure_openai_compat")
    module.has_endpoint_support = lambda: False  # type: ignore[attr-defined]
    module.build_client = lambda *_, **__: None  # type: ignore[attr-defined]
    return module


def _stripped(response: Any, tags: Any, strip: Callable[[str, Any], str]) -> Any:
    if isinstance(response, list):
        return [strip(part, tags) if isinstance(part, str) else part for part in response]
    return strip(response, tags) if isinstance(response, str) else response


class LmmsEval(Library):
    """lmms-eval."""

    package = "lmms_eval"
    title = "lmms-eval"
    prefix = "lmms"
    install = "pip install 'lyncean[lmms]'"
    seeds = (0, 1234)
    scored_task = _Scored
    programs = frozenset(
        {
            # Java, for words and METEOR of captions
            *("coco_cap", "cuva", "detailcaps", "flickr30k", "funqa", "nocaps", "refcoco", "refcoco+", "refcocog"),
            *("screenspot", "textcaps", "vatex", "youcook2"),
            "mdpbench",  # LaTeX, which draws formulas
        }
    )

    def imported(self) -> SimpleNamespace:
        """Imports the modules that tasks need and silences lmms-eval's messages, which are for its own command line."""
        os.environ.update(_judge_variables(judge_url()))
        from loguru import logger

        logger.remove()
        from lmms_eval import utils
        from lmms_eval.api import instance, metrics, reasoning, task

        utils.import_function = _function_beside(utils.import_function)
        sys.modules.setdefault("lmms_eval.azure_openai_compat", _without_azure())
        return SimpleNamespace(utils=utils, task=task, instance=instance, reasoning=reasoning, metrics=metrics)

    def read_index(self, folder: str) -> dict[str, dict[str, Any]]:
        """Returns its index of a folder."""
        _ = self.modules
        from lmms_eval.tasks import TaskManager

        manager = TaskManager(include_defaults=False)
        return {name: dict(entry) for name, entry in manager._get_task_and_group(folder).items()}

    def read_yaml(self, path: str, *, functions: bool) -> dict[str, Any]:
        """Returns the configuration of a task or group."""
        mode = "full" if functions else "simple"
        config: dict[str, Any] = self.modules.utils.load_yaml_config(path, mode=mode)
        return config

    def combine(self, group: Group, values: Values, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns a group's metrics, by `consolidate_group_results` of its evaluator; standard errors are our own."""
        from lmms_eval import evaluator_utils
        from lmms_eval.api.group import ConfigurableGroup, GroupConfig

        config = {**group.own(GroupConfig.__dataclass_fields__), "group": group.name}
        tree = {ConfigurableGroup(config): {task: self.named(task) for task in group.tasks}}
        results: dict[str, dict[str, Any]] = {group.name: {}}
        for task in group.tasks:
            errors = {f"{key.replace(',', '_stderr,', 1)}": "N/A" for key in values.get(task, ())}
            results[task] = {**values.get(task, {}), **errors, "samples": sizes.get(task, 0)}
        evaluator_utils.consolidate_group_results(results, {}, tree)
        return results[group.name]

    def agentic(self, script: Any, arguments: tuple[Any, ...]) -> str:
        """Returns the final record of one document of an agentic task, by its evaluator's own loop.

        Args:
            script: Stands in for one of its simple models.
            arguments: Arguments of the task's request.
        """
        from lmms_eval.evaluator import _run_generate_until_agentic

        request = SimpleNamespace(args=arguments, metadata={"task": "", "doc_id": 0, "repeats": 1})
        [final] = _run_generate_until_agentic(script, [request])
        return str(final)

    def size(self, counts: Sequence[int]) -> int:
        """Returns the number of values of the last metric."""
        return counts[-1]

    def download(self, task: Any, arguments: Any) -> None:
        """Has a task read its data, without the pauses of its retries."""
        self.modules.task.ConfigurableTask.download.__wrapped__(task, arguments)

    def finish(self, task: Any) -> None:
        """Gives a task with examples the sampler that it lacks."""
        super().finish(task)
        if task.config.num_fewshot and not hasattr(task, "sampler"):
            # 0.7.3 makes a sampler for a `fewshot_config` alone, and fails on a task with examples and without one.
            from lmms_eval.api.samplers import get_sampler

            task.sampler = get_sampler("default")(list(task.fewshot_docs()), task, rnd=random.Random(1234))

    def finish_scored(self, task: Any) -> None:
        """Prepares the filters of a task as lmms-eval's evaluator does, if the task asks for it."""
        if not getattr(task.config, "auto_strip_thinking", False) or getattr(task.config, "reasoning_tags", None):
            return
        from lmms_eval.filters.transformation import StripThinkingFilter

        for ensemble in task._filters:
            ensemble.filters.insert(0, StripThinkingFilter())

    def task_class(self) -> type[Any]:
        """Returns its class of tasks."""
        module = self.modules.task

        class Task(OurTask, module.ConfigurableMessagesTask):  # type: ignore[misc, name-defined]
            """lmms-eval's task, its data from elsewhere, and without the pauses of its retries."""

            @classmethod
            def _visual_to_content(cls, visual: Any) -> dict[str, Any]:
                """Returns the visual unchanged, since 0.7.3 takes audio without a `type` for a video."""
                return {"type": "image", "url": visual}

            def process_results(self, doc: Any, results: Any, full_docs: Any = None) -> Any:
                return module.ConfigurableTask.process_results.__wrapped__(self, doc, results, full_docs)

        return Task


_URLS = (
    *("OPENAI_BASE_URL", "OPENAI_API_URL", "OPENAI_API_BASE", "AZURE_ENDPOINT", "AZURE_OPENAI_ENDPOINT"),
    *("ENDPOINT_URL", "JUDGE_BASE_URL", "QWEN_API_URL", "LLM_JUDGE_URL", "MEGABENCH_OPEN_API_URL"),
)
"""Variables from which its tasks and its module `llm_judge` read the address of a judge."""

_FULL = {"QWEN_API_URL", "LLM_JUDGE_URL", "MEGABENCH_OPEN_API_URL"}
"""Those that include the path of chat completions."""

_KEYS = ("OPENAI_API_KEY", "AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "JUDGE_API_KEY", "MEGABENCH_OPEN_API_KEY")

_OWN = ("BABYVISION", "IMGEDIT", "KRIS_BENCH", "STRUCTEDITBENCH", "WISE")
"""Tasks with variables of their own: `<NAME>_API_KEY` and `<NAME>_BASE_URL`."""


def _judge_variables(url: str) -> dict[str, str]:
    """Returns variables that direct every judge request of its tasks to one address."""
    variables = {name: f"{url}/chat/completions" if name in _FULL else url for name in _URLS}
    variables |= dict.fromkeys(_KEYS, "none")
    variables |= {"API_TYPE": "openai", "VIESCORE_API_BASE": url, "VIESCORE_API_KEY": "none", "Deepseek_API": "none"}
    for name in _OWN:
        variables |= {f"{name}_BASE_URL": url, f"{name}_API_KEY": "none"}
    return variables


LIBRARY = LmmsEval()
