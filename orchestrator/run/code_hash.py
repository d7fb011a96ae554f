"""The code that decides what a benchmark asks and how its answers are judged, as one hash."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.benchmarks.base import Benchmark

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([\w.]+))", re.MULTILINE)
_WORD = re.compile(r"\w+")
_OWN = "orchestrator"
_SYNTHETIC = "synthetic"
"""What a module is called that draws a benchmark's synthetic rows."""
_DATA = (".csv", ".json", ".toml")
"""Suffixes of a module's data, which lies beside it under its name: `prompts.py`, `prompts.toml`."""


def code_hash(benchmark: Benchmark, *, synthetic: bool) -> str:
    """Returns the sha256 of a benchmark's modules and of all that they import from its package and from ours.

    Args:
        benchmark: The benchmark; its rows, samples and metrics may stand in different modules.
        synthetic: Whether its rows are drawn: what draws them then counts as well.
    """
    functions: list[Callable[..., Any]] = [benchmark.samples, benchmark.rows, benchmark.metrics]
    if synthetic:
        functions.append(benchmark.synthetic)
    return _hash(
        frozenset(module.__name__ for function in functions if (module := inspect.getmodule(function))), synthetic
    )


@cache
def _hash(modules: frozenset[str], synthetic: bool) -> str:
    wanted = set(modules)
    roots = {_OWN, *(name.partition(".")[0] for name in wanted)}
    files: dict[str, bytes] = {}
    while wanted:
        name = wanted.pop()
        path = None if name in files else _file(name)
        if path is None or (not synthetic and name.rpartition(".")[2] == _SYNTHETIC):
            continue
        text = path.read_bytes()
        files[name] = text + b"".join(data.read_bytes() for data in map(path.with_suffix, _DATA) if data.is_file())
        wanted.update(other for other in _imports(text.decode()) if other.partition(".")[0] in roots)
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _imports(text: str) -> Iterator[str]:
    """Yields whatever a module's text may import: modules, and names that may be modules."""
    for package, names, module in _IMPORT.findall(text):
        yield package or module
        for name in _WORD.findall(names):
            yield f"{package}.{name}"


def _file(name: str) -> Path | None:
    """Returns a module's file without importing it, None where there is no such module."""
    root, *rest = name.split(".")
    found = getattr(sys.modules.get(root), "__file__", None)
    if found is None:
        return None
    if not rest:
        return Path(found)
    path = Path(found).parent.joinpath(*rest)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
