"""Finds and opens the tasks, groups and tags of a harness by name; reports what a task lacks to be loaded."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from lyncean.plugins import cache_folder
from lyncean_harnesses.library import HarnessError
from lyncean_harnesses.library.foreign import LOADING, line, quiet

Index = Mapping[str, Mapping[str, Any]]
"""Name -> `type` ("task", "group", "tag" or another kind), `yaml_path`, and a tag's `task`."""

_FORM = "2"
"""Version of the cached index; changes with its content."""

_NAMES = {"task", "group", "task_alias", "group_alias", "alias"}
_OF_GROUPS = {*_NAMES, "tag", "aggregate_metric_list", "metadata"}
"""Settings of the group itself; any other setting overrides one of its members."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group with metrics over its tasks.

    Attributes:
        name: Its name; a group within another has the prefix `OTHER::`.
        tasks: Its tasks and those of its nested groups, in the harness's order.
        config: Its configuration.
    """

    name: str
    tasks: tuple[str, ...]
    config: Mapping[str, Any]

    def own(self, names: Container[str]) -> dict[str, Any]:
        """Returns the settings of some names."""
        return {name: value for name, value in self.config.items() if name in names}


class Catalogue(ABC):
    """The tasks, groups and tags of one installed harness.

    Attributes:
        package: The name to import.
        title: Its name for people.
        prefix: Prefix of its tasks' names here, before the colon.
        install: The command that installs it.
    """

    package: str
    title: str
    prefix: str
    install: str

    def __init__(self) -> None:
        self._indexes: dict[tuple[str, ...], Index] = {}

    @abstractmethod
    def read_index(self, folder: str) -> dict[str, dict[str, Any]]:
        """Returns its index of a folder's tasks, groups and tags; see `Index`."""

    @abstractmethod
    def read_yaml(self, path: str, *, functions: bool) -> dict[str, Any]:
        """Returns the configuration of a task or group.

        Args:
            path: Its file.
            functions: Whether to import the functions that it names; otherwise placeholders may replace them.
        """

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
        """Returns the index of its tasks and of further folders; its own tasks take precedence.

        The index of its own tasks is cached on disk by its version and folder.
        """
        if include not in self._indexes:
            self._indexes[include] = self._read_all(include)
        return self._indexes[include]

    def _read_all(self, include: Sequence[str]) -> Index:
        folder = f"{self.folder()}/"
        file = cache_folder() / "harness" / f"{self.package}-{self.version()}-{sha256(folder + _FORM)[:16]}.json"
        index: dict[str, dict[str, Any]] | None = None
        with contextlib.suppress(OSError, ValueError):
            index = json.loads(file.read_text())
        if index is None:
            index = self.read_index(folder)
            with contextlib.suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                partial = file.with_suffix(f".{os.getpid()}")
                partial.write_text(json.dumps(index))
                partial.replace(file)
        for further in include:
            if not Path(further).is_dir():
                why = f"--include-path {further} is not a folder"
                raise HarnessError(why, fix=f"give one with configurations of {self.title}")
            index = {**self.read_index(further), **index}
        return index

    def members(self, name: str, include: tuple[str, ...] = ()) -> list[str]:
        """Returns the tasks of a name: the task itself, or those of a group or tag.

        Raises:
            HarnessError: The name is unknown, or a group changes the settings of its members.
        """
        return self._open(name, include, functions=False)[0]

    def groups(self, name: str, include: tuple[str, ...] = (), *, functions: bool = True) -> list[Group]:
        """Returns the groups of a name that have metrics over their tasks: itself first, then nested ones.

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
                    opened = self._open(member, include, functions=functions)
                elif isinstance(member.get("task"), list):
                    opened = below(f"{name}::{member['group']}", member)
                elif member.keys() <= _NAMES:
                    opened = self._open(member.get("task") or member["group"], include, functions=functions)
                else:
                    raise self._changing(name, sorted(member.keys() - _NAMES)[0])
                tasks += opened[0]
                groups += opened[1]
            tasks = list(dict.fromkeys(tasks))
            outer = [Group(name, tuple(tasks), config)] if config.get("aggregate_metric_list") else []
            return tasks, outer + groups

        return below(name, config)

    def _changing(self, group: str, setting: str) -> HarnessError:
        why = f"group {self.prefix}:{group} changes {setting} of its members, which is not supported"
        return HarnessError(why, fix="give the tasks one by one")

    @contextlib.contextmanager
    def _loading(self, name: str) -> Iterator[None]:
        """Loads foreign code under a lock and without output; raises an error that names what it lacks."""
        with LOADING, quiet():
            try:
                yield
            except BaseException as error:
                raise self.lacking(name, error) from error

    def unknown(self, name: str, known: Index) -> HarnessError:
        """Returns the error of an unknown name."""
        close = [f"{self.prefix}:{match}" for match in difflib.get_close_matches(name, known, n=3, cutoff=0.5)]
        hint = f"did you mean {' or '.join(close)}?" if close else "give the folder that has it by --include-path"
        return HarnessError(f"{self.title} {self.version()} has no task {name!r}", fix=hint)

    def lacking(self, name: str, error: BaseException) -> HarnessError:
        """Returns the error of a task that cannot be loaded, in one line."""
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


def sha256(content: str | bytes) -> str:
    """Returns the sha256 in hex."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
