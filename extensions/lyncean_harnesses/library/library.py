"""Code that the harnesses share: loads tasks with their data, or for scoring alone."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean.cell import closes
from lyncean.plugins import OwnFiles
from lyncean_harnesses.library import HarnessError
from lyncean_harnesses.library.catalogue import Catalogue, Group, sha256
from lyncean_harnesses.library.data import replaced_data, undecoding
from lyncean_harnesses.library.dice import watched
from lyncean_harnesses.library.foreign import LOADING, line
from lyncean_harnesses.library.scored import MODEL_NAME, NoData, Scored

Values = Mapping[str, Mapping[str, Any]]
"""Task -> "metric,filter" -> value."""

STARTS_PROGRAMS = "starts_programs"
"""Key in a task's `metadata`: its code starts programs for scoring."""

_DOWNLOADS = {"From_YouTube", "builder_script", "create_link", "force_download", "force_unzip", "video"}
"""Arguments by which lmms-eval fetches files beside the rows."""


class Library(Catalogue):
    """One installed harness: finds, loads and scores tasks by the harness's own code.

    Attributes:
        seeds: Seeds of Python's random generator and of NumPy's that its evaluator sets before it reads data.
        scored_task: The scoring half of one of its tasks.
        programs: Folders of its tasks whose code may start programs or processes for scoring; others may not.
    """

    seeds: tuple[int, int]
    scored_task: type[Scored]
    programs: frozenset[str]

    def __init__(self) -> None:
        super().__init__()
        self._scored: dict[tuple[str, tuple[str, ...], str], Scored] = {}
        self._running: dict[tuple[str, tuple[str, ...]], str] = {}

    @abstractmethod
    def imported(self) -> SimpleNamespace:
        """Imports the modules that tasks need: at least `task`, `instance` and `metrics`.

        Raises:
            ImportError: It lacks something.
        """

    @abstractmethod
    def combine(self, group: Group, values: Values, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns a group's metrics from those of its tasks, by its evaluator's own code; ignores other keys.

        Args:
            group: The group, its functions imported.
            values: Task -> "metric,filter" -> value.
            sizes: Task -> its size (`size`).
        """

    @abstractmethod
    def size(self, counts: Sequence[int]) -> int:
        """Returns the size that its evaluator assigns to a task.

        Args:
            counts: Number of values of each metric of the task, in the metrics' order.
        """

    @abstractmethod
    def download(self, task: Any, arguments: Any) -> None:
        """Has a task read its data, as it does by itself."""

    @abstractmethod
    def task_class(self) -> type[Any]:
        """Returns its class of tasks, below `OurTask`."""

    def finish(self, task: Any) -> None:
        """Prepares a loaded task as its evaluator does before requests."""
        if task.config.num_fewshot is None:
            task.set_config(key="num_fewshot", value=0)

    def finish_scored(self, task: Any) -> None:
        """Prepares a task for scoring alone as its evaluator does before scoring."""

    @cached_property
    def modules(self) -> SimpleNamespace:
        """The harness's modules that tasks need, imported on first use.

        Raises:
            HarnessError: It is not installed, or lacks something.
        """
        self.version()
        os.environ.setdefault("HF_HOME", str(Path("~/.cache/huggingface").expanduser()))
        with LOADING:
            try:
                return self.imported()
            except ImportError as error:
                raise HarnessError(f"{self.title} cannot be imported ({line(error)})", fix=self.install) from error

    def config(self, name: str, include: tuple[str, ...] = ()) -> dict[str, Any]:
        """Returns a task's configuration with its functions.

        Raises:
            HarnessError: It cannot be loaded; the message names what it lacks.
        """
        self.members(name, include)
        with self._loading(name):
            return self.read_yaml(self.index(include)[name]["yaml_path"], functions=True)

    def runs_text(self, name: str, include: tuple[str, ...] = ()) -> str:
        """Returns the location at which code of a task or group runs text as Python, "FILE:LINE calls NAME", or "".

        Raises:
            HarnessError: The name is unknown.
        """
        known = self.index(include)
        if name not in known:
            raise self.unknown(name, known)
        if known[name]["type"] == "tag":
            return ""
        if (name, include) not in self._running:
            from lyncean_harnesses.library import (
                task_code,  # it reads YAML, which a scorer without such tasks never does
            )

            folders = (self.folder(), *map(Path, include))
            self._running[name, include] = task_code.place_in_task(Path(known[name]["yaml_path"]), folders)
        return self._running[name, include]

    def repositories(self, name: str, include: tuple[str, ...] = ()) -> list[str]:
        """Returns the hub repositories that the files of a task or group name; nothing for other entries."""
        from lyncean_harnesses.library import task_code

        known = self.index(include)
        if name not in known or known[name]["type"] == "tag":
            return []
        folders = (self.folder(), *map(Path, include))
        return task_code.repositories_of_task(Path(known[name]["yaml_path"]), folders)

    def starts_programs(self, name: str, include: tuple[str, ...] = ()) -> bool:
        """Returns whether a task or group may start programs: it is in `programs`, or its `metadata` says so.

        Raises:
            HarnessError: The name is unknown, or its files cannot be read.
        """
        known = self.index(include)
        if name not in known:
            raise self.unknown(name, known)
        if known[name]["type"] == "tag":
            return False
        path = Path(known[name]["yaml_path"])
        if path.is_relative_to(self.folder()):
            return path.relative_to(self.folder()).parts[0] in self.programs
        with self._loading(name):
            metadata = self.read_yaml(str(path), functions=False).get("metadata")
        return isinstance(metadata, dict) and metadata.get(STARTS_PROGRAMS) is True

    def unclosed(self, name: str, include: tuple[str, ...] = ()) -> str:
        """Returns the location at which a task's code runs text with a scorer's full rights; "" on systems with cells.

        Raises:
            HarnessError: The name is unknown.
        """
        location = self.runs_text(name, include)
        return location if location and not closes() else ""

    def load(self, name: str, include: tuple[str, ...], data: Any | None, model: str = "") -> Any:
        """Returns its own object of a task with its data.

        Args:
            name: The task's name.
            include: Further folders with configurations.
            data: Splits by name (a `datasets.DatasetDict`) in place of its own source; None reads its source.
            model: The harness's name of the model that is asked; "" for an unknown model.

        Raises:
            HarnessError: A package, the data, or something that its code expects of the data is missing.

        Returns:
            The object; its attribute `drew` is whether random numbers were drawn to load it.
        """
        modules = self.modules
        settings = self.config(name, include)

        def read(task: Any, arguments: Any) -> None:
            if data is not None:  # the user who provides the rows also provides the files that they name
                arguments = {name: value for name, value in (arguments or {}).items() if name not in _DOWNLOADS}
            with replaced_data(modules.task, data, OwnFiles((self.folder(), *include))):
                self.download(task, arguments)
            for name in ("dataset", "dataset_no_image"):
                undecoding(getattr(task, name, None))

        with self._loading(name), watched() as drew:
            task = self._make(name, settings, read, model)
            self.finish(task)
            task.drew = drew()
            return task

    def scored(self, name: str, include: tuple[str, ...], learned: str) -> Scored:
        """Returns the scoring half of a task.

        Args:
            name: The task's name.
            include: Further folders with configurations.
            learned: The result of `state`, as JSON.

        Raises:
            HarnessError: It cannot be loaded.
        """
        key = (name, include, learned)
        if key not in self._scored:
            self._scored[key] = self._half(*key)
        return self._scored[key]

    def _half(self, name: str, include: tuple[str, ...], learned: str) -> Scored:
        settings, known = self.config(name, include), json.loads(learned)
        model = known.pop(MODEL_NAME, "")

        def read(task: Any, _: Any) -> None:
            task.dataset = task.dataset_no_image = NoData()

        with self._loading(name):
            task = self._make(name, settings, read, model, scores_only=True)
            for attribute, value in known.items():
                setattr(task, attribute, value)
            self.finish_scored(task)
            scored = self.scored_task(task, self.modules)
            scored.starts_programs, scored.include = self.starts_programs(name, include), include
            return scored

    @cached_property
    def _task_class(self) -> Any:
        return self.task_class()

    def _make(
        self,
        name: str,
        settings: dict[str, Any],
        read: Callable[[Any, Any], None],
        model: str,
        *,
        scores_only: bool = False,
    ) -> Any:
        task = self._task_class.__new__(self._task_class)
        task.read_data, task.scores_only = read, scores_only
        task.__init__(config={**settings, "task": name}, **({MODEL_NAME: model} if model else {}))
        task.scores_only = False
        return task

    def named(self, task: str) -> Any:
        """Returns a task object with only a name, the one attribute that its evaluator reads in a group."""
        stub = self._task_class.__new__(self._task_class)
        stub._config = SimpleNamespace(task=task)
        return stub

    def code(self, name: str, include: tuple[str, ...] = ()) -> str:
        """Returns the sha256 of a task's configuration and of the code beside it."""
        folder = Path(self.index(include)[name]["yaml_path"]).parent
        files = sorted(file for file in folder.iterdir() if file.suffix in (".py", ".yaml") or file.name[0] == "_")
        digests = "".join(f"{sha256(file.read_bytes())}  {file.name}\n" for file in files if file.is_file())
        return sha256(f"{self.version()}\n{name}\n{digests}")
