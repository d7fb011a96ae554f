"""Benchmarks by task name: built-in ones, plugins from the entry points `lyncean.benchmarks`, and task files."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from lyncean.plugins.registry import WORD, PluginError, Registry
from orchestrator.benchmarks.base import Benchmark, TaskGroup, TaskSource
from orchestrator.errors import ConfigError

OURS = {
    "marvel": "orchestrator.benchmarks.marvel.benchmark",
    "marvel_few_shot": "orchestrator.benchmarks.marvel.few_shot",
    "marvel_described": "orchestrator.benchmarks.marvel.described",
    "hrbench": "orchestrator.benchmarks.hrbench.benchmark",
    "vstar_bench": "orchestrator.benchmarks.vstar.benchmark",
    "vstar_search": "orchestrator.benchmarks.vstar.search",
    "VisualPuzzles": "orchestrator.benchmarks.visualpuzzles.benchmark",
    "VisualPuzzles_knowledge": "orchestrator.benchmarks.visualpuzzles.knowledge",
    "VisualPuzzles_steps": "orchestrator.benchmarks.visualpuzzles.reasoning",
    "VisualPuzzles_strategy": "orchestrator.benchmarks.visualpuzzles.reasoning",
    "voila": "orchestrator.benchmarks.voila.benchmark",
    "reform": "orchestrator.benchmarks.reform.benchmark",
}
"""Prefix of the tasks' names -> the module whose `BENCHMARK` has them."""

TASK_FILES = (".yaml", ".yml")
"""Endings of task files, see `orchestrator.benchmarks.taskfile`."""

TASKS: Registry[TaskSource] = Registry(
    "task",
    {
        "lmms": "lyncean_harnesses.benchmark:LMMS",
        "lm-eval": "lyncean_harnesses.benchmark:LM_EVAL",
        "vlmevalkit": "lyncean_harnesses.vlmevalkit.benchmark:VLMEVALKIT",
    },
    (TaskSource,),
    names=WORD,
)
"""Prefixes of tasks."""

_REGISTRY: Registry[Benchmark] = Registry("benchmark", OURS, (Benchmark,))


class UnknownTaskError(ConfigError):
    """No benchmark has a task of this name, and the message names the closest; or a plugin cannot be loaded."""


def benchmarks() -> dict[str, Benchmark]:
    """Returns every benchmark by its name, built-in ones first.

    Raises:
        UnknownTaskError: If a plugin cannot be loaded.
    """
    try:
        all_benchmarks = [_REGISTRY.get(name) for name in _REGISTRY.names()]
    except PluginError as error:
        raise UnknownTaskError(str(error)) from error
    return {benchmark.name: benchmark for benchmark in all_benchmarks}


def find(names: Iterable[str], include: Sequence[str] = ()) -> dict[str, Benchmark]:
    """Returns the benchmark of each named task, with groups expanded, in order.

    Args:
        names: Tasks, groups, task files, and tasks of other harnesses (`lmms:NAME`).
        include: Folders with further configurations of other harnesses' tasks.

    Raises:
        HarnessError: If another harness is not installed, or has no such task.
        TaskFileError: If a task file is wrong, or its task has the name of another one.
        UnknownTaskError: If a name is neither a task nor a group.
    """
    selected: dict[str, Benchmark] = {}
    files: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if name.endswith(TASK_FILES):
            from orchestrator.benchmarks.taskfile import load

            benchmark = load(name)
            _check_name(benchmark.name, name, files)
            selected[benchmark.name] = benchmark
            continue
        if source := source_of(name):
            if why := source.why_absent():
                raise UnknownTaskError(why)
            selected.update(source.find(name.partition(":")[2], include))
            continue
        owner = _owner(name)
        if owner is None:
            raise UnknownTaskError(_unknown(name))
        for task in owner.groups.get(name, (name,)):
            selected[task] = owner
    return selected


def groups(names: Iterable[str], include: Sequence[str] = ()) -> dict[str, TaskGroup]:
    """Returns the named groups with metrics over their tasks, and the groups within them; names as in `find`."""
    selected: dict[str, TaskGroup] = {}
    for name in names:
        if source := source_of(name):
            selected.update(source.groups(name.partition(":")[2], include))
    return selected


def source_of(word: str) -> TaskSource | None:
    """Returns the extension whose tasks begin with the word's prefix; None without one."""
    prefix, colon, _ = word.partition(":")
    if not colon or word.endswith(TASK_FILES):
        return None
    try:
        return TASKS.get(prefix) if prefix in TASKS else None
    except (LookupError, PluginError) as error:
        raise UnknownTaskError(str(error.args[0])) from error


def _check_name(name: str, file: str, files: dict[str, str]) -> None:
    from orchestrator.benchmarks.taskfile import TaskFileError

    other = files.setdefault(name, file)
    if other != file:
        raise TaskFileError(f"{other} and {file} both make a task {name}: give one another name by `task: NAME`")
    if _owner(name) or name in benchmarks():
        raise TaskFileError(
            f"{file} makes a task {name}, and there is one of that name already: "
            "give the file's another name by `task: NAME`"
        )


def _owner(word: str) -> Benchmark | None:
    # Importing one module is enough for a task that begins with its benchmark's name; all are imported for another one.
    try:
        for prefix in itertools.chain(OURS, (name for name in _REGISTRY.names() if name not in OURS)):
            if word.startswith(prefix) and _has(_REGISTRY.get(prefix), word):
                return _REGISTRY.get(prefix)
    except PluginError as error:
        raise UnknownTaskError(str(error)) from error
    return next((benchmark for benchmark in benchmarks().values() if _has(benchmark, word)), None)


def _has(benchmark: Benchmark, word: str) -> bool:
    return word in benchmark.tasks or word in benchmark.groups


def _unknown(word: str) -> str:
    names = [name for b in benchmarks().values() for name in (*b.tasks, *b.groups)]
    lowered = {name.lower(): name for name in names}
    close = [lowered[name] for name in difflib.get_close_matches(word.lower(), lowered, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(close)}?" if close else "`orchestrator tasks` lists them"
    if Path(word).is_file():
        hint = f"`orchestrator new-task {word}` makes a task file of data; the data of a task is given by --data"
    return f"there is no task {word!r}: {hint}"
