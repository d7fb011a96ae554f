"""lmms-eval's tasks: found, loaded and scored by its own code, unchanged."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import json
import os
import random
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean.caches import cache_folder
from lyncean.harness import HarnessError

PACKAGE = "lmms_eval"
TITLE = "lmms-eval"
_INSTALL = "pip install 'lyncean[lmms]'"

SEEDS = (0, 1234)
"""What its evaluator seeds Python's generator of random numbers and NumPy's with, before it reads any data."""

_CLOSED = "http://127.0.0.1:9/v1"
"""An address at which nobody answers: a task that makes a client of a judge when it is imported can be loaded, and no
request leaves the machine by it."""

_loading = threading.RLock()


def version() -> str:
    """Returns the installed version.

    Raises:
        HarnessError: It is not installed.
    """
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise HarnessError(f"tasks lmms:NAME need {TITLE}, which is not installed", fix=_INSTALL) from None


@cache
def _import() -> Any:
    """Imports what tasks need of lmms-eval; its messages to people are for its own command line."""
    version()
    os.environ.setdefault("HF_HOME", str(Path("~/.cache/huggingface").expanduser()))
    if "OPENAI_API_KEY" not in os.environ:
        os.environ.update(OPENAI_API_KEY="none", OPENAI_BASE_URL=_CLOSED, OPENAI_API_URL=_CLOSED)
    with _loading:
        try:
            from loguru import logger

            logger.remove()
            from lmms_eval import utils
            from lmms_eval.api import instance, metrics, reasoning, task
        except ImportError as error:
            raise HarnessError(f"{TITLE} cannot be imported ({_line(error)})", fix=_INSTALL) from error
    return SimpleNamespace(utils=utils, task=task, instance=instance, reasoning=reasoning, metrics=metrics)


# The index ------------------------------------------------------------------------------------------------------------


@cache
def index(include: tuple[str, ...] = ()) -> Mapping[str, Mapping[str, Any]]:
    """Returns lmms-eval's index of its tasks, groups and tags by name; later folders give way to earlier ones.

    The index of the installed package is kept from one command to the next, under the package's version.

    Args:
        include: Further folders with configurations.
    """
    found = dict(_own_index())
    for folder in include:
        if not Path(folder).is_dir():
            raise HarnessError(f"--include-path {folder} is no folder: give one with configurations of {TITLE}")
        found = {**_read_index(folder), **found}
    return found


def _own_index() -> Mapping[str, Mapping[str, Any]]:
    spec = importlib.util.find_spec(PACKAGE)
    installed = version()
    if spec is None or spec.origin is None:
        raise HarnessError(f"{TITLE} {installed} cannot be imported", fix=_INSTALL)
    folder = str(Path(spec.origin).parent / "tasks")
    place = cache_folder() / "harness" / f"{PACKAGE}-{installed}-{_sha256(folder)[:16]}.json"
    with contextlib.suppress(OSError, ValueError):
        kept: dict[str, dict[str, Any]] = json.loads(place.read_text())
        return kept
    found = _read_index(folder + "/")
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found))
        partial.replace(place)
    return found


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
        raise HarnessError(_unknown(name, known))
    entry = known[name]
    if entry["type"] in ("task", "python_task"):
        return [name]
    listed = entry["task"] if entry["type"] == "tag" else _yaml(entry["yaml_path"], "simple")["task"]
    found: list[str] = []
    for member in listed:
        if not isinstance(member, str):
            raise HarnessError(f"group lmms:{name} changes the settings of its members, which is not supported: "
                               "give the tasks one by one")  # fmt: skip
        found.extend(members(member, include))
    return list(dict.fromkeys(found))


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(f'lmms:{each}' for each in close)}?" if close else "look at its list of tasks"
    return f"{TITLE} {version()} has no task {name!r}: {hint}"


def _yaml(path: str, mode: str) -> dict[str, Any]:
    config: dict[str, Any] = _import().utils.load_yaml_config(path, mode=mode)
    return config


# Loading --------------------------------------------------------------------------------------------------------------


def config(name: str, include: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns a task's configuration with its functions.

    Raises:
        HarnessError: It cannot be loaded; says what it lacks.
    """
    members(name, include)
    with _loading, _quiet():
        try:
            return _yaml(index(include)[name]["yaml_path"], "full")
        except HarnessError:
            raise
        except BaseException as error:
            raise _lacking(name, error) from error


def code(name: str, include: tuple[str, ...] = ()) -> str:
    """Returns the sha256 of a task's configuration and of the code beside it."""
    folder = Path(index(include)[name]["yaml_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.suffix in (".py", ".yaml") or file.name.startswith("_"))
    words = "".join(f"{_sha256(file.read_bytes())}  {file.name}\n" for file in files if file.is_file())
    return _sha256(f"{version()}\n{name}\n{words}")


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
        with _datasets(library, data):
            download(task, arguments)

    with _loading, _quiet():
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
            raise _lacking(name, error) from error


def state(task: Any) -> dict[str, Any]:
    """Returns what lmms-eval learns of a task from its data, for the half that scores without them."""
    return {
        "features": list(task.features),
        "multiple_target": task.multiple_target,
        "multiple_input": task.multiple_input,
    }


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
        task.dataset = task.dataset_no_image = _NoData()

    with _loading, _quiet():
        try:
            task = _make(name, settings, read, scores_only=True)
            for attribute, value in json.loads(learned).items():
                setattr(task, attribute, value)
            _strip_thinking(task)
            return Scored(task)
        except BaseException as error:
            raise _lacking(name, error) from error


class Scored:
    """The scoring half of a task; see `lyncean.harness.ScoredTask`."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._library = _import()
        self._folder = tempfile.TemporaryDirectory(prefix="lyncean-")

    def results(self, doc: Mapping[str, Any], responses: Sequence[Sequence[Any]]) -> dict[str, dict[str, Any]]:
        """Returns what its filters and `process_results` make of one document."""
        instances = [
            self._library.instance.Instance(
                request_type=self._task.OUTPUT_TYPE,
                arguments=(),
                idx=place,
                metadata={"task": self._task.config.task, "doc_id": 0, "repeats": len(repeats)},
                resps=list(repeats),
            )
            for place, repeats in enumerate(responses)
        ]
        with _quiet():
            for ensemble in self._task._filters:
                ensemble.apply(instances, _Docs([doc] * len(instances)))
            tags = self._library.reasoning.parse_reasoning_tags_config(
                task_value=getattr(self._task.config, "reasoning_tags", None)
            )
            found = {}
            for key in instances[0].filtered_resps:
                filtered = [self._stripped(instance.filtered_resps[key], tags) for instance in instances]
                if self._task.OUTPUT_TYPE == "loglikelihood" and len(filtered) == 1:
                    filtered = list(filtered[0])  # what its process_results takes apart
                found[key] = dict(self._task.process_results(doc, filtered))
            return found

    def _stripped(self, response: Any, tags: Any) -> Any:
        if tags is None:
            return response
        strip = self._library.reasoning.strip_reasoning_tags
        if isinstance(response, list):
            return [strip(each, tags) if isinstance(each, str) else each for each in response]
        return strip(response, tags) if isinstance(response, str) else response

    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns what its models return of continuations: the mean loss of a token, and whether it is greedy."""
        return [(-logprob / tokens, greedy) for logprob, tokens, greedy in scores]

    def aggregate(self, metric: str, values: list[Any]) -> Any:
        """Returns its aggregation of a metric's values; files that it writes go to a folder that is deleted."""
        function = self._task.aggregation()[metric]
        with _quiet():
            if "args" in inspect.signature(function).parameters:
                return function(values, args=arguments(self._folder.name))
            return function(values)

    def is_mean(self, metric: str) -> bool:
        """Whether a metric's aggregation is lmms-eval's own mean."""
        return self._task.aggregation().get(metric) is self._library.metrics.mean


def arguments(folder: str) -> Any:
    """Returns what stands for lmms-eval's command line where an aggregation asks for it."""
    return SimpleNamespace(
        output_path=folder,
        process_with_media=False,
        reasoning_tags=None,
        agentic_trace_mode="basic",
        tasks="",
        model="",
    )


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


class _Docs(list[Any]):
    """Documents as lmms-eval reads them of a data set."""

    features: Mapping[str, Any] = {}


class _NoData(dict[str, _Docs]):
    """The data of a task that is only scored: any split has one empty document."""

    def __missing__(self, split: str) -> _Docs:
        return _Docs([{}])


@contextlib.contextmanager
def _datasets(library: Any, data: Any | None) -> Iterator[None]:
    """Has lmms-eval's code read other data where it would load its own."""
    if data is None:
        yield
        return
    real = library.task.datasets

    def given(*_: Any, **__: Any) -> Any:
        return real.DatasetDict(data)

    library.task.datasets = SimpleNamespace(
        **{name: getattr(real, name) for name in ("DatasetDict", "DownloadMode", "Dataset")},
        load_dataset=given,
        load_from_disk=given,
    )
    # What process_docs makes would otherwise be kept beside the data, in a folder that is not ours.
    kept = real.is_caching_enabled()
    real.disable_caching()
    try:
        yield
    finally:
        library.task.datasets = real
        if kept:
            real.enable_caching()


def _strip_thinking(task: Any) -> None:
    """Does what lmms-eval's evaluator does to the filters of a task that asks for it."""
    if not getattr(task.config, "auto_strip_thinking", False) or getattr(task.config, "reasoning_tags", None):
        return
    from lmms_eval.filters.transformation import StripThinkingFilter

    for ensemble in task._filters:
        ensemble.filters.insert(0, StripThinkingFilter())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what foreign code prints off standard output, which belongs to our commands."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _lacking(name: str, error: BaseException) -> HarnessError:
    """Returns one line on why a task cannot be loaded."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, HarnessError):
        return error
    where = f"task lmms:{name} of {TITLE} {version()}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            package = cause.name.partition(".")[0]
            return HarnessError(f"{where} needs the package {package}", fix=f"install it beside {TITLE}")
        cause = cause.__cause__ or cause.__context__
    return HarnessError(f"{where} cannot be loaded: {_line(error)}")


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def _sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
