"""Objects by name: built-in modules, plugins' entry points, and objects created at start."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lyncean.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A name of a rule, metric or benchmark."""
WORD = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""A name of a command, task prefix, format, kind of import or front."""


class Named(Protocol):
    """An object that can be registered."""

    @property
    def name(self) -> Any:
        """The name, a string."""


T = TypeVar("T", bound=Named)


@cache
def _installed(path: tuple[str, ...]) -> list[EntryPoint]:
    """Returns the entry points `lyncean.*` of packages on the path; of two packages with one name the first counts.

    Parses only files that mention such a group: parsing those of all packages takes 45 ms.
    """
    entry_points: list[EntryPoint] = []
    seen: set[str] = set()
    for folder in path:
        abouts: list[str] = []
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            abouts = sorted(entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info")))
        for about in map(Path, abouts):
            package = about.name.partition("-")[0].lower()
            with contextlib.suppress(OSError):
                if package not in seen and b"[lyncean." in (about / "entry_points.txt").read_bytes():
                    from importlib.metadata import Distribution

                    entry_points += Distribution.at(about).entry_points
            seen.add(package)
    return entry_points


@cache
def _importable(package: str) -> bool:
    if package in sys.modules:
        return True
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # a folder without modules has no origin


class PluginError(UserError):
    """A plugin that cannot be used: a configuration mistake, one line and exit code 2."""


class Registry(Generic[T]):
    """Objects of one kind by name, imported at their first use.

    Args:
        noun: "rule", "metric", "command" ...; in capitals the constant that a built-in module exports; the group of
            entry points is `lyncean.<noun>s`.
        modules: Built-in ones by name, `module` or `module:attribute`; those of an extension that is not installed are
            skipped.
        kinds: Classes of which a registered object must be an instance.
        extra: Further objects, created at start, for example from YAML.
        names: Pattern of valid names of entry points.

    Raises:
        PluginError: If two have the same name.
    """

    def __init__(
        self,
        noun: str,
        modules: Mapping[str, str],
        kinds: tuple[type, ...],
        extra: Iterable[T] = (),
        *,
        names: re.Pattern[str] = NAME,
    ) -> None:
        self.noun = noun
        self._modules = modules
        self._names = names
        self._kinds = kinds
        self._loaded: dict[str, T] = {}
        for item in extra:
            if item.name in modules or item.name in self._loaded:
                raise PluginError(f"{noun} {item.name!r} is defined twice: give yours another name")
            self._loaded[item.name] = item

    def get(self, name: str) -> T:
        """Returns the object with this name.

        Raises:
            Exception: The error of `unknown`, for an unknown name.
            PluginError: If an entry point cannot be loaded.
        """
        item = self._loaded.get(name)
        if item is None:
            item = self._loaded[name] = self._load(name)
        return item

    def names(self) -> list[str]:
        """Returns every name: built-in ones, then entry points, then objects created at start.

        Raises:
            PluginError: If two have the same name.
        """
        return list(dict.fromkeys([*self.ours(), *self._plugins, *self._loaded]))

    def ours(self) -> list[str]:
        """Returns the built-in names whose package is installed; scans no entry points."""
        return [name for name in self._modules if self._present(name)]

    def others(self) -> list[str]:
        """Returns the names of entry points, in order.

        Raises:
            PluginError: If two have the same name.
        """
        return list(self._plugins)

    def __contains__(self, name: str) -> bool:
        """Returns True for a built-in name, installed or not, or an entry point."""
        return name in self._modules or name in self._plugins

    def load_plugins(self) -> None:
        """Loads every entry point now, so that a broken one fails at start and not during a stream.

        Raises:
            PluginError: If one cannot be used.
        """
        for name in self._plugins:
            self.get(name)

    def unknown(self, name: str) -> Exception:
        """Returns the error for an unknown name, or for an extension that is not installed."""
        if name in self._modules:
            return LookupError(f"{self.noun} {name!r} is of {self._package(name)}, which is not installed")
        return LookupError(f"there is no {self.noun} {name!r}; known: {', '.join(sorted(self.names()))}")

    def _present(self, name: str) -> bool:
        return name in self._modules and _importable(self._package(name))

    def _package(self, name: str) -> str:
        return re.split("[.:]", self._modules[name], maxsplit=1)[0]

    def _load(self, name: str) -> T:
        if self._present(name):
            module, _, attribute = self._modules[name].partition(":")
            item: T = getattr(importlib.import_module(module), attribute or self.noun.upper())
            return item
        if name in self._plugins:
            return self._load_plugin(name)
        raise self.unknown(name)

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        plugins: dict[str, EntryPoint] = {}
        group = f"lyncean.{self.noun}s"
        ours = [entry for entry in _installed(tuple(sys.path)) if entry.group == group]
        for entry in sorted(ours, key=lambda entry: entry.name):
            if entry.name in plugins or entry.name in self._modules or entry.name in self._loaded:
                raise PluginError(
                    f"{self.noun} {entry.name!r} of plugin {entry.value} is defined twice: give yours another name"
                )
            if not self._names.fullmatch(entry.name):
                raise PluginError(f"plugin {entry.value}: {entry.name!r} is not a valid name for a {self.noun}")
            plugins[entry.name] = entry
        return plugins

    def _load_plugin(self, name: str) -> T:
        entry = self._plugins[name]
        of = f"{self.noun} {name!r}" + (f" of package {entry.dist.name}" if entry.dist else "")
        try:
            item: T = entry.load()
        except Exception as error:  # foreign modules may raise anything on import
            kind = "" if isinstance(error, (ImportError, AttributeError, SyntaxError)) else f"{type(error).__name__}: "
            raise PluginError(f"{of}: cannot load {entry.value}: {kind}{error}") from error
        if not isinstance(item, self._kinds):
            kinds = " or ".join(kind.__name__ for kind in self._kinds)
            raise PluginError(f"{of}: {entry.value} is a {type(item).__name__}, not a {kinds}")
        if item.name != name:
            raise PluginError(f"{self.noun} {name!r}: {entry.value} calls itself {item.name!r}: use one name")
        return item
