"""What is found by name: a table of our own modules, users' entry points, objects made at start."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar

from lyncean.errors import UserError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A valid name."""


class Named(Protocol):
    """What can be registered."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Named)


@cache
def _installed(_: tuple[str, ...]) -> Any:
    """Returns the entry points of all packages on the path, which are many small files."""
    return entry_points()


class PluginError(UserError):
    """A plugin that cannot be used. A configuration mistake: one line, exit code 2."""


class Registry(Generic[T]):
    """Objects of one kind by name, each imported when it is first looked up.

    Args:
        noun: "rule", "metric" or "benchmark"; also the constant that a module of ours exports, in capitals, and the
            entry points' group `lyncean.<noun>s`.
        modules: Our own, by name.
        kinds: The classes a registered object may have.
        extra: Further ones that were made at start, for example from YAML.

    Raises:
        PluginError: If two have the same name.
    """

    def __init__(self, noun: str, modules: Mapping[str, str], kinds: tuple[type, ...], extra: Iterable[T] = ()) -> None:
        self.noun = noun
        self._modules = modules
        self._kinds = kinds
        self._loaded: dict[str, T] = {}
        for item in extra:
            if item.name in modules or item.name in self._loaded:
                raise PluginError(f"{noun} {item.name!r} is defined twice: give yours another name")
            self._loaded[item.name] = item

    def get(self, name: str) -> T:
        """Returns the one of this name.

        Raises:
            Exception: What `unknown` returns, if there is none.
            PluginError: If it is an entry point that cannot be loaded.
        """
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = self._load(name)
        return found

    def names(self) -> list[str]:
        """Returns every name: ours, then entry points, then those made at start.

        Raises:
            PluginError: If two have the same name.
        """
        return list(dict.fromkeys([*self._modules, *self._plugins, *self._loaded]))

    def load_plugins(self) -> None:
        """Loads every entry point now, so that a broken one is found at start and not in a stream.

        Raises:
            PluginError: If one cannot be used.
        """
        for name in self._plugins:
            self.get(name)

    def unknown(self, name: str) -> Exception:
        """Returns the error of a name that nothing has."""
        return LookupError(f"there is no {self.noun} {name!r}; known: {', '.join(sorted(self.names()))}")

    def _load(self, name: str) -> T:
        if name in self._modules:
            item: T = getattr(importlib.import_module(self._modules[name]), self.noun.upper())
            return item
        if name in self._plugins:
            return self._load_plugin(name)
        raise self.unknown(name)

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for entry in sorted(
            _installed(tuple(sys.path)).select(group=f"lyncean.{self.noun}s"), key=lambda entry: entry.name
        ):
            if entry.name in found or entry.name in self._modules or entry.name in self._loaded:
                raise PluginError(
                    f"{self.noun} {entry.name!r} of plugin {entry.value} is defined twice: give yours another name"
                )
            if not NAME.fullmatch(entry.name):
                raise PluginError(f"plugin {entry.value}: {entry.name!r} is no name for a {self.noun}")
            found[entry.name] = entry
        return found

    def _load_plugin(self, name: str) -> T:
        entry = self._plugins[name]
        try:
            item: T = entry.load()
        except (ImportError, AttributeError, SyntaxError) as error:
            raise PluginError(f"{self.noun} {name!r}: cannot load {entry.value}: {error}") from error
        if not isinstance(item, self._kinds):
            kinds = " or ".join(kind.__name__ for kind in self._kinds)
            raise PluginError(f"{self.noun} {name!r}: {entry.value} is a {type(item).__name__}, not a {kinds}")
        if item.name != name:
            raise PluginError(f"{self.noun} {name!r}: {entry.value} calls itself {item.name!r}: use one name")
        return item
