"""`check --drift`: asks a server the same requests alone, in batches, again, and a second replica.

Each way is a model of a suite of its own, in the folder `drift` of the suite's, so that a measurement resumes as any
suite does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from lyncean.rpc import PLAIN, Credentials
from lyncean.statistics.distributions import normal_quantile
from orchestrator.compare import leaderboard, scores, statistics
from orchestrator.compare.scores import Scores
from orchestrator.errors import ConfigError, IncompleteError, LimitError
from orchestrator.run_folder.manifest import write
from orchestrator.run_folder.reader import open_run
from orchestrator.suite import run as suites
from orchestrator.suite.drift import FILE, Drift, Way
from orchestrator.suite.file import SuiteFile, of_file
from orchestrator.suite.watch import held

_FOLDER = "drift"
_LEVEL = 0.95


async def measure(
    file: SuiteFile, endpoints: Sequence[str], folder: Path, console: Console, credentials: Credentials = PLAIN
) -> Drift:
    """Runs a suite's tasks in each way and writes their differences.

    Args:
        file: The suite, whose tasks and options count, and not its models.
        endpoints: Address of the server, and of a second replica.
        folder: The suite's folder.
        console: Receives progress.
        credentials: Of the servers.

    Raises:
        UserError: As a suite that is run.
        IncompleteError: A cell is not complete: the same command resumes.
    """
    one = {"endpoint": endpoints[0]}
    ways: dict[str, dict[str, Any]] = {"alone": {**one, "concurrency": 1}, "in-batches": one, "again": one}
    if len(endpoints) > 1:
        ways["replica"] = {"endpoint": endpoints[1]}
    values = {key: value for key, value in file.values.items() if key not in ("checkpoints", "gate", "variants")}
    suite = of_file(replace(file, values={**values, "models": ways}), credentials)
    with held(folder / _FOLDER):
        record = await suites.run(suite, folder / _FOLDER, console)
    for cell in record.cells:
        if cell.exit_code not in (0, LimitError.exit_code):
            raise IncompleteError(f"{cell.name}: {cell.error}; run the same command again")
    cells = {way: [cell.name for cell in record.cells if cell.model == way] for way in ways}
    _check_one_model([folder / _FOLDER / cell.name for cell in record.cells])
    read_ways = {way: _read(way, [folder / _FOLDER / name for name in names]) for way, names in cells.items()}
    drift = _compared(read_ways, {way: _answers(folder, names) for way, names in cells.items()})
    write(folder / FILE, msgspec.to_builtins(drift))
    return drift


def _check_one_model(paths: Sequence[Path]) -> None:
    models = {path.name: open_run(path).identity["model"] for path in paths}
    first = next(iter(models))
    for name, identity in models.items():
        if identity != models[first]:
            raise ConfigError(f"--drift: {name} was answered by another model than {first}: give replicas of one model")


def _read(way: str, paths: Sequence[Path]) -> Scores:
    return leaderboard.merged(way, [scores.read(open_run(path)) for path in paths])


def _answers(folder: Path, names: Sequence[str]) -> dict[str, str]:
    runs = (open_run(folder / _FOLDER / name) for name in names)
    return {item.key: item.text for run in runs for item in run if item.verdict}


def _compared(runs: dict[str, Scores], answers: dict[str, dict[str, str]]) -> Drift:
    ways, squares, items = [], [], 0
    for first, second in combinations(runs, 2):
        units = statistics.pooled([runs[first], runs[second]])
        if not units:
            raise ConfigError("--drift: no task's primary metric is a share of 0 to 1: there is no noise to tell")
        sums, sizes = statistics.clusters(units)
        moved, items = sums[1] - sums[0], len(units[0].names)
        squares.append(float((moved**2).sum()) / float(sizes.sum()) ** 2)
        keys = answers[first].keys() & answers[second].keys()
        other = sum(answers[first][key] != answers[second][key] for key in keys) / max(len(keys), 1)
        changed = float((units[0].scores != units[1].scores).mean())
        ways.append(Way(first, second, other, changed, float(moved.sum() / sizes.sum())))
    spread = normal_quantile(_LEVEL) * math.sqrt(sum(squares) / len(squares))
    return Drift(items, max(spread, *(abs(way.difference) for way in ways)), ways)
