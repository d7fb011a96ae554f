"""Source code that a component depends on: its modules, and their imports from the same packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([^\n]*))", re.MULTILINE)
_WORD = re.compile(r"[\w.]+")
_DATA = (".csv", ".json", ".toml")
"""Suffixes of a module's data files, which share its name: `prompts.py`, `prompts.toml`."""
_TABLES = "*.tsv"
"""Word lists, which belong to every module of their folder."""


def closure(
    modules: Iterable[str], packages: Collection[str], skip: Callable[[str], bool] = lambda _: False
) -> dict[str, bytes]:
    """Returns the source of modules and of their direct and indirect imports, by name, without importing any.

    Args:
        modules: Modules to start from.
        packages: Top-level packages, already imported, to which the search is limited.
        skip: Tells whether a module is left out.
    """
    pending, sources = set(modules), dict[str, bytes]()
    while pending:
        name = pending.pop()
        if name in sources or skip(name) or (module := _module(name)) is None:
            continue
        sources[name], names = module
        pending.update(other for other in names if other.partition(".")[0] in packages)
    return sources


@cache
def _module(name: str) -> tuple[bytes, frozenset[str]] | None:
    """Returns a module's source and the names that it imports, which may be modules."""
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
    """Returns a module's file without importing it; None for an unknown module."""
    root, *rest = name.split(".")
    origin = getattr(sys.modules.get(root), "__file__", None)
    if origin is None:
        return None
    path = Path(origin).parent.joinpath(*rest) if rest else Path(origin)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
