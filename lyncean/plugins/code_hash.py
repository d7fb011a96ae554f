"""The source code that something depends on: modules, and whatever they import from the same packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([^\n]*))", re.MULTILINE)
_WORD = re.compile(r"[\w.]+")
_DATA = (".csv", ".json", ".toml")
"""Suffixes of a module's data, which lies beside it under its name: `prompts.py`, `prompts.toml`."""
_TABLES = "*.tsv"
"""Tables of words, which belong to every module of their folder."""


def closure(
    modules: Iterable[str], packages: Collection[str], skip: Callable[[str], bool] = lambda _: False
) -> dict[str, bytes]:
    """Returns the source of modules and of all that they import, directly or not, by name; imports nothing.

    Args:
        modules: Where to begin.
        packages: Top-level packages, already imported, within which imports are followed.
        skip: Modules that do not count.
    """
    wanted, found = set(modules), dict[str, bytes]()
    while wanted:
        name = wanted.pop()
        if name in found or skip(name) or (module := _module(name)) is None:
            continue
        found[name], names = module
        wanted.update(other for other in names if other.partition(".")[0] in packages)
    return found


@cache
def _module(name: str) -> tuple[bytes, frozenset[str]] | None:
    """Returns a module's source and whatever it may import: modules, and names that may be modules."""
    path = _file(name)
    if path is None:
        return None
    source, names = path.read_bytes(), set[str]()
    beside = [*map(path.with_suffix, _DATA), *sorted(path.parent.glob(_TABLES))]
    data = b"".join(file.read_bytes() for file in beside if file.is_file())
    for package, imported, modules in _IMPORT.findall(source.decode()):
        names.update([package] if package else _WORD.findall(modules))
        names.update(f"{package}.{word}" for word in _WORD.findall(imported))
    return source + data, frozenset(names)


def _file(name: str) -> Path | None:
    """Returns a module's file without importing it, None where there is no such module."""
    root, *rest = name.split(".")
    found = getattr(sys.modules.get(root), "__file__", None)
    if found is None:
        return None
    path = Path(found).parent.joinpath(*rest) if rest else Path(found)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
