"""What the harnesses share: how tasks are found and loaded, and what a task that cannot be loaded lacks."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean.cell import closes
from lyncean.plugins import OwnFiles, cache_folder
from lyncean_harnesses.library import HarnessError
from lyncean_harnesses.library.data import replaced_data, undecoding
from lyncean_harnesses.library.foreign import LOADING, line, quiet
from lyncean_harnesses.library.scored import NoData, Scored

Index = Mapping[str, Mapping[str, Any]]
"""Name -> `type` ("task", "group", "tag" or another kind), `yaml_path`, and a tag's `task`."""

Values = Mapping[str, Mapping[str, Any]]
"""Task -> "metric,filter" -> value."""

STARTS_PROGRAMS = "starts_programs"
"""Key in a task's `metadata`: its code starts programs to score."""

_FORM = "2"
"""Changes with what is kept of an index."""

_NAMES = {"task", "group", "task_alias", "group_alias", "alias"}
_OF_GROUPS = {*_NAMES, "tag", "aggregate_metric_list", "metadata"}
"""Settings of a group that are its own; any other is one of its members' settings, changed."""

_DOWNLOADS = {"From_YouTube", "builder_script", "create_link", "force_download", "force_unzip", "video"}
"""Arguments by which lmms-eval fetches files beside the rows."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group with metrics over its tasks.

    Attributes:
        name: Its name; one that stands in another group has `OTHER::` in front of its own.
        tasks: Its tasks and those of the groups in it, in the harness's order.
        config: Its configuration.
    """

    name: str
    tasks: tuple[str, ...]
    config: Mapping[str, Any]

    def own(self, names: Container[str]) -> dict[str, Any]:
        """Returns the settings of some names."""
        return {name: value for name, value in self.config.items() if name in names}


class Library(ABC):
    """One installed harness: its tasks, found, loaded and scored by its own code.

    Attributes:
        package: The name to import.
        title: Its name for people.
        prefix: What its tasks' names begin with here, before the colon.
        install: The command that installs it.
        seeds: What its evaluator seeds Python's generator of random numbers and NumPy's with, before it reads any data.
        scored_task: The scoring half of one of its tasks.
        programs: Folders of its tasks whose code starts programs or processes to score; it may do so nowhere else.
    """

    package: str
    title: str
    prefix: str
    install: str
    seeds: tuple[int, int]
    scored_task: type[Scored]
    programs: frozenset[str]

    def __init__(self) -> None:
        self._indexes: dict[tuple[str, ...], Index] = {}
        self._scored: dict[tuple[str, tuple[str, ...], str], Scored] = {}
        self._running: dict[tuple[str, tuple[str, ...]], str] = {}

    @abstractmethod
    def imported(self) -> SimpleNamespace:
        """Imports what tasks need of it: at least its modules `task`, `instance` and `metrics`.

        Raises:
            ImportError: It lacks something.
        """

    @abstractmethod
    def read_index(self, folder: str) -> dict[str, dict[str, Any]]:
        """Returns its index of a folder's tasks, groups and tags; see `Index`."""

    @abstractmethod
    def read_yaml(self, path: str, *, functions: bool) -> dict[str, Any]:
        """Returns the configuration of a task or group.

        Args:
            path: Its file.
            functions: Whether to import the functions that it names; others may stand in their place.
        """

    @abstractmethod
    def combine(self, group: Group, values: Values, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns a group's metrics of those of its tasks, by its evaluator's own code; any other keys are ignored.

        Args:
            group: The group, its functions imported.
            values: Task -> "metric,filter" -> value.
            sizes: Task -> its size (`size`).
        """

    @abstractmethod
    def size(self, counts: Sequence[int]) -> int:
        """Returns what its evaluator takes for a task's size.

        Args:
            counts: How many values each metric of the task is made of, in the order in which they come.
        """

    @abstractmethod
    def download(self, task: Any, arguments: Any) -> None:
        """Has a task read its data, as it does by itself."""

    @abstractmethod
    def task_class(self) -> type[Any]:
        """Returns its class of tasks, below `OurTask`."""

    def finish(self, task: Any) -> None:
        """Does to a loaded task what its evaluator does before it asks."""
        if task.config.num_fewshot is None:
            task.set_config(key="num_fewshot", value=0)

    def finish_scored(self, task: Any) -> None:  # noqa: B027  (one harness has nothing to do)
        """Does to a task that is only scored what its evaluator does before it scores."""

    @cached_property
    def modules(self) -> SimpleNamespace:
        """What tasks need of it, imported on first use.

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

    def version(self) -> str:
        """Returns the installed version.

        Raises:
            HarnessError: It is not installed.
        """
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            why = f"tasks {self.prefix}:NAME need {self.title}, which is not installed"
            raise HarnessError(why, fix=self.install) from None

    def folder(self) -> Path:
        """Returns the folder of its tasks, without importing it."""
        installed = self.version()
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            raise HarnessError(f"{self.title} {installed} cannot be imported", fix=self.install)
        return Path(spec.origin).parent / "tasks"

    def index(self, include: tuple[str, ...] = ()) -> Index:
        """Returns the index of its tasks and of further folders, which give way to its own.

        Its own is kept from one command to the next, under its version and place.
        """
        if include not in self._indexes:
            self._indexes[include] = self._read_all(include)
        return self._indexes[include]

    def _read_all(self, include: Sequence[str]) -> Index:
        folder = f"{self.folder()}/"
        place = cache_folder() / "harness" / f"{self.package}-{self.version()}-{sha256(folder + _FORM)[:16]}.json"
        found: dict[str, dict[str, Any]] | None = None
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(place.read_text())
        if found is None:
            found = self.read_index(folder)
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                partial = place.with_suffix(f".{os.getpid()}")
                partial.write_text(json.dumps(found))
                partial.replace(place)
        for further in include:
            if not Path(further).is_dir():
                why = f"--include-path {further} is no folder"
                raise HarnessError(why, fix=f"give one with configurations of {self.title}")
            found = {**self.read_index(further), **found}
        return found

    def members(self, name: str, include: tuple[str, ...] = ()) -> list[str]:
        """Returns the tasks that a name stands for: itself, or those of a group or tag.

        Raises:
            HarnessError: There is none of this name, or a group changes the settings of its members.
        """
        return self._open(name, include, functions=False)[0]

    def groups(self, name: str, include: tuple[str, ...] = (), *, functions: bool = True) -> list[Group]:
        """Returns the groups with metrics over their tasks that a name stands for: itself, and then those in it.

        Raises:
            HarnessError: As `members`; or a function of a group cannot be imported.
        """
        return self._open(name, include, functions=functions)[1]

    def _open(self, name: str, include: tuple[str, ...], *, functions: bool) -> tuple[list[str], list[Group]]:
        known = self.index(include)
        if name not in known:
            raise self.unknown(name, known)
        entry = known[name]
        if entry["type"] in ("task", "python_task"):
            return [name], []
        config: Mapping[str, Any] = {"task": entry["task"]} if entry["type"] == "tag" else {}
        if not config:
            with self._loading(name):
                config = self.read_yaml(entry["yaml_path"], functions=functions)
                if isinstance(config["task"], str):
                    config = {**config, "task": [config["task"]]}

        def below(name: str, config: Mapping[str, Any]) -> tuple[list[str], list[Group]]:
            tasks: list[str] = []
            groups: list[Group] = []
            if changed := sorted(config.keys() - _OF_GROUPS):
                raise self._changing(name, changed[0])
            for member in config["task"]:
                if isinstance(member, str):
                    found = self._open(member, include, functions=functions)
                elif isinstance(member.get("task"), list):
                    found = below(f"{name}::{member['group']}", member)
                elif member.keys() <= _NAMES:
                    found = self._open(member.get("task") or member["group"], include, functions=functions)
                else:
                    raise self._changing(name, sorted(member.keys() - _NAMES)[0])
                tasks += found[0]
                groups += found[1]
            tasks = list(dict.fromkeys(tasks))
            own = [Group(name, tuple(tasks), config)] if config.get("aggregate_metric_list") else []
            return tasks, own + groups

        return below(name, config)

    def _changing(self, group: str, setting: str) -> HarnessError:
        why = f"group {self.prefix}:{group} changes {setting} of its members, which is not supported"
        return HarnessError(why, fix="give the tasks one by one")

    def config(self, name: str, include: tuple[str, ...] = ()) -> dict[str, Any]:
        """Returns a task's configuration with its functions.

        Raises:
            HarnessError: It cannot be loaded; says what it lacks.
        """
        self.members(name, include)
        with self._loading(name):
            return self.read_yaml(self.index(include)[name]["yaml_path"], functions=True)

    def runs_text(self, name: str, include: tuple[str, ...] = ()) -> str:
        """Returns where the code of a task or group runs text as Python, "FILE:LINE calls NAME"; "" where it does not.

        Raises:
            HarnessError: There is none of this name.
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

    def starts_programs(self, name: str, include: tuple[str, ...] = ()) -> bool:
        """Returns whether a task or group may start programs: it is in `programs`, or its `metadata` says so.

        Raises:
            HarnessError: There is none of this name, or it cannot be read.
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
        """Returns where the code of a task runs text with all rights of a scorer: on systems without cells alone.

        Raises:
            HarnessError: There is none of this name.
        """
        place = self.runs_text(name, include)
        return place if place and not closes() else ""

    def load(self, name: str, include: tuple[str, ...], data: Any | None) -> Any:
        """Returns its own object of a task with its data.

        Args:
            name: The task's name.
            include: Further folders with configurations.
            data: Splits by name (a `datasets.DatasetDict`) in place of its own source; None reads its source.

        Raises:
            HarnessError: Something is missing: a package, the data, or what its code expects of the data.
        """
        settings, modules = self.config(name, include), self.modules

        def read(task: Any, arguments: Any) -> None:
            if data is not None:  # whoever brings the rows brings the files that they name
                arguments = {name: value for name, value in (arguments or {}).items() if name not in _DOWNLOADS}
            with replaced_data(modules.task, data, OwnFiles((self.folder(), *include))):
                self.download(task, arguments)
            for name in ("dataset", "dataset_no_image"):
                undecoding(getattr(task, name, None))

        with self._loading(name):
            task = self._make(name, settings, read)
            self.finish(task)
            return task

    def scored(self, name: str, include: tuple[str, ...], learned: str) -> Scored:
        """Returns the scoring half of a task.

        Args:
            name: The task's name.
            include: Further folders with configurations.
            learned: What `state` returned, as JSON.

        Raises:
            HarnessError: It cannot be loaded.
        """
        key = (name, include, learned)
        if key not in self._scored:
            self._scored[key] = self._half(*key)
        return self._scored[key]

    def _half(self, name: str, include: tuple[str, ...], learned: str) -> Scored:
        settings = self.config(name, include)

        def read(task: Any, _: Any) -> None:
            task.dataset = task.dataset_no_image = NoData()

        with self._loading(name):
            task = self._make(name, settings, read, scores_only=True)
            for attribute, value in json.loads(learned).items():
                setattr(task, attribute, value)
            self.finish_scored(task)
            found = self.scored_task(task, self.modules)
            found.starts_programs = self.starts_programs(name, include)
            return found

    @contextlib.contextmanager
    def _loading(self, name: str) -> Iterator[None]:
        """Loads foreign code alone and without a word; raises what it lacks."""
        with LOADING, quiet():
            try:
                yield
            except BaseException as error:
                raise self.lacking(name, error) from error

    @cached_property
    def _task_class(self) -> Any:
        return self.task_class()

    def _make(
        self, name: str, settings: dict[str, Any], read: Callable[[Any, Any], None], *, scores_only: bool = False
    ) -> Any:
        task = self._task_class.__new__(self._task_class)
        task.read_data, task.scores_only = read, scores_only
        task.__init__(config={**settings, "task": name})
        task.scores_only = False
        return task

    def named(self, task: str) -> Any:
        """Returns an object of its class of tasks that has a name alone: what its evaluator looks at in a group."""
        made = self._task_class.__new__(self._task_class)
        made._config = SimpleNamespace(task=task)
        return made

    def unknown(self, name: str, known: Index) -> HarnessError:
        """Returns the error of a name that nothing has."""
        close = [f"{self.prefix}:{each}" for each in difflib.get_close_matches(name, known, n=3, cutoff=0.5)]
        hint = f"did you mean {' or '.join(close)}?" if close else "give the folder that has it by --include-path"
        return HarnessError(f"{self.title} {self.version()} has no task {name!r}", fix=hint)

    def lacking(self, name: str, error: BaseException) -> HarnessError:
        """Returns one line on why a task cannot be loaded."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, HarnessError):
            return error
        where = f"task {self.prefix}:{name} of {self.title} {self.version()}"
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ModuleNotFoundError) and cause.name:
                package = cause.name.partition(".")[0]
                if package != self.package:
                    return HarnessError(f"{where} needs the package {package}", fix=f"install it beside {self.title}")
                return HarnessError(f"{where} needs the module {cause.name}, which this version lacks")
            if type(cause).__name__ == "LocalEntryNotFoundError":
                return HarnessError(f"{where} reads files of the hub when it is loaded, which cannot be reached")
            if isinstance(cause, ConnectionError):
                return HarnessError(f"{where}: its data cannot be reached ({line(cause)})", fix="give --data")
            cause = cause.__cause__ or cause.__context__
        return HarnessError(f"{where} cannot be loaded: {line(error)}")

    def code(self, name: str, include: tuple[str, ...] = ()) -> str:
        """Returns the sha256 of a task's configuration and of the code beside it."""
        folder = Path(self.index(include)[name]["yaml_path"]).parent
        files = sorted(file for file in folder.iterdir() if file.suffix in (".py", ".yaml") or file.name[0] == "_")
        words = "".join(f"{sha256(file.read_bytes())}  {file.name}\n" for file in files if file.is_file())
        return sha256(f"{self.version()}\n{name}\n{words}")


def sha256(content: str | bytes) -> str:
    """Returns the sha256 in hex."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
