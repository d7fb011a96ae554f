"""Tasks of other harnesses in a run: what the scorer that it starts is told of them, and what its folder records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lyncean.plugins.folders import absolute
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.registry import source_of
from orchestrator.errors import ConfigError
from orchestrator.run.arguments import words_of
from orchestrator.run.request import RunRequest
from orchestrator.run_folder import manifest as run_manifest

INCLUDE = "include_path"
TRUSTED = "trust_task_code"
"""Fields of the manifest, called as those of the request."""
CELL = "cell"
"""Field of manifest and results: the layers that close the processes in which the scorer runs code of others."""


def check_code(task: str, location: str, *, trusted: bool) -> None:
    """Makes sure that a task's code may run on answers.

    Args:
        task: The task.
        location: Where its code runs text as Python, "" where it does not.
        trusted: Whether the user has allowed that.

    Raises:
        ConfigError: It would run answers as code.
    """
    if location and not trusted:
        raise ConfigError(
            f"task {task}: its code runs text as Python ({location}): the model's answers would run as code, with all "
            "rights of the scorer's process; give --trust-task-code to allow that"
        )


def of_request(request: RunRequest) -> list[str]:
    """Returns the arguments of the `scorer serve` that a run starts for its tasks of other harnesses, if it has any."""
    include = absolute(words_of(request.include_path))
    return _arguments(include, trusted=request.trust_task_code) if _has_tasks(request) else []


def of_flags(flags: Sequence[str]) -> list[str]:
    """Returns the same for flags of `eval`, --NAME=VALUE or --NAME each; folders as they stand there."""

    def given(name: str) -> list[str]:
        return [word.partition("=")[2] for word in flags if word.startswith(f"--{name}=")]

    request = RunRequest(given("task"), settings=given("set"))
    trusted = "--trust-task-code" in flags
    return _arguments(given("include-path"), trusted=trusted) if _has_tasks(request) else []


def _has_tasks(request: RunRequest) -> bool:
    own_settings = request.settings or ()
    settings = (
        {name: str(value) for name, value in own_settings.items()}
        if isinstance(own_settings, Mapping)
        else dict(word.partition("=")[::2] for word in words_of(own_settings))
    )
    return any(source.scored_by_code(settings) for word in words_of(request.tasks) if (source := source_of(word)))


def _arguments(include: Sequence[str], *, trusted: bool) -> list[str]:
    arguments = ["--foreign-tasks", *(f"--include-path={folder}" for folder in include)]
    return [*arguments, "--trust-task-code"] if trusted else arguments


def recorded(include: Sequence[str], *, trusted: bool) -> dict[str, Any]:
    """Returns what the manifest of a run records of its tasks of other harnesses."""
    folders = list(absolute(include))
    return {**({INCLUDE: folders} if folders else {}), **({TRUSTED: True} if trusted else {})}


def fenced(manifest: Mapping[str, Any], rules: scorer.ListRulesResponse) -> dict[str, str]:
    """Returns what the manifest of a run records of the processes in which its scorer runs code of others, if any."""
    if not rules.cell_layers or not _is_foreign(manifest):
        return {}
    from lyncean.cell import LAYERS, PROCESS  # most runs need no cells

    layers = [name for name in (*LAYERS, PROCESS) if name in rules.cell_layers]
    return {CELL: ", ".join(layers)} if layers else {}


def of_run(run: Path, include: Sequence[str], *, trusted: bool) -> list[str]:
    """Returns the arguments of a `scorer serve` that scores a run folder again, or computes its metrics.

    What code runs here is said by the command, never by the folder, which others may have made.

    Args:
        run: The run folder.
        include: Folders with further tasks, as the command has them.
        trusted: Whether the command has --trust-task-code.

    Raises:
        ConfigError: The command lacks a folder or --trust-task-code.
        HarnessError: The harness is not installed, or has no such task.
        ManifestError: It is not a run folder.
    """
    manifest = run_manifest.read(run)
    if not _is_foreign(manifest):
        return []
    folders = absolute(include)
    if (before := _folders_of(manifest)) and not folders:
        again = " ".join(f"--include-path {folder}" for folder in before)
        raise ConfigError(f"{run}: the code of its tasks is in a folder that was given by {again}: give it again")
    for task, location in _places(manifest, folders):
        check_code(task, location, trusted=trusted)
    return _arguments(folders, trusted=trusted)


def _is_foreign(manifest: Mapping[str, Any]) -> bool:
    return any(spec["metric"] in run_manifest.FOREIGN_METRICS for spec in _specs(manifest))


def _specs(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for specs in manifest["metrics"].values():
        yield from specs
    for group in (manifest.get("groups") or {}).values():
        yield from group["metrics"]


def _folders_of(manifest: Mapping[str, Any]) -> list[str]:
    """Returns the folders of a run's tasks; of older ones the parameters of its metrics name them."""
    older = [folder for spec in _specs(manifest) for folder in (spec.get("params") or {}).get("include", ())]
    return list(dict.fromkeys([*manifest.get(INCLUDE, ()), *older]))


def _places(manifest: Mapping[str, Any], include: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields each task that is scored by code of others with where that code runs text as Python."""
    for task, specs in manifest["metrics"].items():
        if any(spec["metric"] in run_manifest.FOREIGN_METRICS for spec in specs) and (source := source_of(task)):
            yield task, source.runs_text(task.partition(":")[2], include)
