"""The code hash of the manifest: code that decides prompts or scoring changes it, and no other code does."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lyncean.plugins import code_hash as sources
from orchestrator.benchmarks import registry
from orchestrator.benchmarks.base import Benchmark
from orchestrator.run.plan import code_hash

NUMBERS = itertools.count()
BENCHMARK = """
from orchestrator.benchmarks.base import Benchmark
from orchestrator.samples import metric
from {name}.prompts import (
    PROMPT,
    scoring,
)

def rows(task, data): ...
def samples(row, variant):
    from {name} import late
def metrics(variant): ...
def synthetic(task, seed):
    from {name} import unread

BENCHMARK = Benchmark(
    name="b", tasks={{"b": ""}}, data="", rows=rows, samples=samples, metrics=metrics, synthetic=synthetic
)
"""

Plugin = Callable[..., tuple[Path, Benchmark]]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    """Makes a package with a benchmark, loads it, and gives its folder."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def make() -> tuple[Path, Benchmark]:
        name = f"plugin{next(NUMBERS)}"
        names.append(name)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "bench.py").write_text(BENCHMARK.format(name=name))
        (folder / "prompts.py").write_text("import os\nPROMPT = 'a'\ndef scoring(): ...\n")
        (folder / "prompts.toml").write_text("")
        (folder / "late.py").write_text("TEXT = 'a'\n")
        (folder / "unread.py").write_text("")
        (folder / "stranger.py").write_text("")
        return folder, importlib.import_module(f"{name}.bench").BENCHMARK

    yield make
    for name in list(sys.modules):
        if name.partition(".")[0] in names:
            del sys.modules[name]


@pytest.mark.parametrize("file", ["bench.py", "prompts.py", "prompts.toml", "late.py"])
def test_a_companion_counts(plugin: Plugin, file: str) -> None:
    folder, benchmark = plugin()
    before = code_hash(benchmark, synthetic=False)
    with (folder / file).open("a") as module:
        module.write("# another prompt\n")
    sources._module.cache_clear()
    assert code_hash(benchmark, synthetic=False) != before


def test_what_is_not_imported_does_not(plugin: Plugin) -> None:
    folder, benchmark = plugin()
    before = code_hash(benchmark, synthetic=False)
    (folder / "stranger.py").write_text("# changed\n")
    sources._module.cache_clear()
    assert code_hash(benchmark, synthetic=False) == before


@pytest.mark.parametrize("task", ["reform", "voila_wd", "vstar_bench", "marvel"])
def test_what_draws_rows_counts_for_drawn_rows_alone(task: str) -> None:
    benchmark = next(iter(registry.find([task]).values()))
    assert code_hash(benchmark, synthetic=True) != code_hash(benchmark, synthetic=False)


@pytest.mark.parametrize(
    ("task", "module"),
    [
        ("reform", "orchestrator.benchmarks.reform.layouts"),
        ("voila_wd", "orchestrator.benchmarks.voila.rules"),
        ("VisualPuzzles_cot", "orchestrator.benchmarks.visualpuzzles.prompts"),
        ("marvel_described", "orchestrator.benchmarks.marvel.texts"),
        ("vstar_bench", "orchestrator.data.parquet"),
    ],
)
def test_our_companions_count(task: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    benchmark = next(iter(registry.find([task]).values()))
    before = code_hash(benchmark, synthetic=False)
    other = tmp_path / "other.py"
    other.write_text("# what the module might have become\n")
    find = sources._file
    monkeypatch.setattr(sources, "_file", lambda name: other if name == module else find(name))
    sources._module.cache_clear()
    try:
        assert code_hash(benchmark, synthetic=False) != before
    finally:
        sources._module.cache_clear()
