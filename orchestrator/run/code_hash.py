"""The code that decides what a benchmark asks and how its answers are judged, as one hash."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

from lyncean.code_hash import closure
from orchestrator.benchmarks.base import Benchmark

_SYNTHETIC = "synthetic"
"""Name of the modules that draw a benchmark's synthetic rows."""


def code_hash(benchmark: Benchmark, *, synthetic: bool) -> str:
    """Returns the sha256 of a benchmark's modules and of all that they import from its package and from ours.

    Args:
        benchmark: The benchmark; its rows, samples and metrics may stand in different modules.
        synthetic: Whether its rows are drawn: what draws them then counts as well.
    """
    functions: list[Callable[..., Any]] = [benchmark.samples, benchmark.rows, benchmark.metrics]
    if synthetic:
        functions.append(benchmark.synthetic)
    modules = {module.__name__ for function in functions if (module := inspect.getmodule(function))}
    packages = {"orchestrator", *(name.partition(".")[0] for name in modules)}
    files = closure(modules, packages, lambda name: not synthetic and name.rpartition(".")[2] == _SYNTHETIC)
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
