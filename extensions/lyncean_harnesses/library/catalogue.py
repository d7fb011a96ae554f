"""The tasks, groups and tags of a harness: found by name, opened, and what one that cannot be loaded lacks."""

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
"""Changes with what is kept of an index."""

_NAMES = {"task", "group", "task_alias", "group_alias", "alias"}
_OF_GROUPS = {*_NAMES, "tag", "aggregate_metric_list", "metadata"}
"""Settings of a group that are its own; any other is one of its members' settings, changed."""


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


class Catalogue(ABC):
    """The tasks, groups and tags of one installed harness.

    Attributes:
        package: The name to import.
        title: Its name for people.
        prefix: What its tasks' names begin with here, before the colon.
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
            functions: Whether to import the functions that it names; others may stand in their place.
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

    @contextlib.contextmanager
    def _loading(self, name: str) -> Iterator[None]:
        """Loads foreign code alone and without a word; raises what it lacks."""
        with LOADING, quiet():
            try:
                yield
            except BaseException as error:
                raise self.lacking(name, error) from error

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


def sha256(content: str | bytes) -> str:
    """Returns the sha256 in hex."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
