"""The suites of a paper's runs: one for each task, whose variants are the runs of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from orchestrator.errors import ConfigError
from orchestrator.papers.tables import Paper, Recipe
from orchestrator.run_folder.durable import write_file
from orchestrator.run_folder.files import has_results
from orchestrator.run_folder.reader import Run, open_run
from orchestrator.suite import record as records
from orchestrator.suite.file import SuiteFile

FILE = "suite.yaml"


@dataclass(frozen=True, slots=True)
class ModelsFile(SuiteFile):
    """The models that a paper's tables are remade with, and options of every run."""

    keys = "`key: value`, models among them"
    schema = Path(__file__).with_name("models.json")


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a paper that are there.

    Attributes:
        found: Model and name of the paper's run -> the complete run.
        missing: What is not there and why, one sentence each.
    """

    found: Mapping[tuple[str, str], Run]
    missing: Sequence[str]

    @property
    def models(self) -> list[str]:
        """The models with any run."""
        return list(dict.fromkeys(model for model, _ in self.found))


def variant_of(name: str) -> str:
    """Returns what a paper's run is called in a suite: "1 shot" is 1-shot."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)


def write_suites(paper: Paper, names: Iterable[str], models: ModelsFile, folder: Path) -> dict[str, Path]:
    """Writes the suites of some of a paper's runs, and returns their files by task.

    Raises:
        RunWriteError: One cannot be written.
    """
    by_task: dict[str, list[str]] = {}
    for name in names:
        by_task.setdefault(paper.runs[name].task, []).append(name)
    files = {}
    for task, of_task in by_task.items():
        common = _options(models.values.get("options") or {}, task)
        suite = {
            "models": models.values["models"],
            "tasks": [task],
            "variants": {variant_of(name): _variant(paper.runs[name], common) for name in of_task},
            "options": common,
        }
        files[task] = folder / task / FILE
        files[task].parent.mkdir(parents=True, exist_ok=True)
        write_file(files[task], orjson.dumps(suite, option=orjson.OPT_INDENT_2))
    return files


def _variant(recipe: Recipe, common: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a paper's run; its settings stand beside those of every run."""
    options, settings = dict(recipe.options), common.get("settings")
    if isinstance(settings, Mapping) and "settings" in options:
        options["settings"] = {**settings, **options["settings"]}
    return options


def _options(recorded: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Returns the options of every run, of the data by task those of one task."""
    options = dict(recorded)
    if isinstance(data := options.get("data"), Mapping):
        options["data"] = {name: path for name, path in data.items() if name == task}
    return options


def runs_of(paper: Paper, names: Sequence[str], folder: Path) -> Runs:
    """Returns the complete runs below a folder that `write_suites` wrote into, also those of earlier tables."""
    runs: dict[tuple[str, str], Run] = {}
    missing = []
    for name in names:
        task = paper.runs[name].task
        suffix = f"-{task}-{variant_of(name)}"
        errors = _errors(folder / task)
        cells = sorted({*errors, *(path.name for path in (folder / task).glob(f"*{suffix}"))})
        cells = [cell for cell in cells if cell.endswith(suffix)]
        if not cells:
            missing.append(f"{name} ({task}) was not run")
        for cell in cells:
            model, path = cell.removesuffix(suffix), folder / task / cell
            if has_results(path):
                runs[model, name] = open_run(path)
            else:
                missing.append(f"{model}, {name}: {errors.get(cell) or 'not complete'}")
    return Runs(runs, missing)


def _errors(folder: Path) -> dict[str, str]:
    """Returns why each cell of a suite's folder ended; empty where nothing is recorded."""
    try:
        return {cell.name: cell.error for cell in records.read(folder).cells}
    except ConfigError:
        return {}
