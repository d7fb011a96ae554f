"""The demo model sees: its metrics stand clear of chance, and fall with every mistake a server could make."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Cluster, Server

pytestmark = pytest.mark.weekly

pytest.importorskip("torch")
pytest.importorskip("transformers")

Interval = tuple[float, float]
Ask = Callable[..., dict[str, Any]]
CHANCE = {"vstar_bench": 37.5, "marvel": 25.0, "VisualPuzzles_direct": 25.0}
"""Percent; half of V*-Bench's questions have two options, half have four."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks the demo model, whole or broken, and returns a task's results; each server is started once."""
    cluster = Cluster(tmp_path_factory.mktemp("demo"))
    scorer = cluster.scorer()
    servers: dict[str, Server] = {}

    def run(task: str, limit: int, *options: str, mutation: str = "none", code: int = 0) -> dict[str, Any]:
        if mutation not in servers:
            command = [sys.executable, str(HERE / "demo_mutants.py"), mutation]
            servers[mutation] = Server(cluster.folder / mutation, command).start()
            cluster.servers.append(servers[mutation])
        name = "-".join(word.strip("-") for word in (mutation, task, str(limit), *options))
        if not (cluster.folder / name).exists():
            cluster.eval(name, [servers[mutation]], scorer, "--task", task, "--limit", str(limit), *options, code=code)
        entry: dict[str, Any] = json.loads(cluster.results(name))["tasks"][task]
        assert entry["counts"]["scored"] + entry["counts"]["unparsed"] == entry["counts"]["planned"]
        return entry

    yield run
    cluster.close()


def interval(results: dict[str, Any], name: str) -> Interval:
    """Returns the interval of a metric over all items, in percent."""
    (metric,) = [f for f in results["metrics"] if f["name"] == name and not f["labels"]]
    scale = 1.0 if metric["unit"] == "percent" else 100.0
    return metric["interval"]["low"] * scale, metric["interval"]["high"] * scale


AVR = ("--set", "questions=avr")
SHOWN: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "vstar_bench": ("accuracy", 80, ()),
    "marvel": ("AVR", 60, AVR),
    "VisualPuzzles_direct": ("accuracy", 80, ()),
}
"""A task's headline metric, how many rows show it, and what is asked of them."""


@pytest.mark.parametrize(("task", "method"), [*((task, "generate") for task in CHANCE), ("vstar_bench", "likelihood")])
def test_it_stands_clear_of_chance(ask: Ask, task: str, method: str) -> None:
    name, limit, options = SHOWN[task]
    assert interval(ask(task, limit, *options, "--method", method), name)[0] > CHANCE[task]


@pytest.mark.parametrize("task", ["vstar_bench", "marvel"])
def test_without_images_it_falls_to_chance(ask: Ask, task: str) -> None:
    name, limit, options = SHOWN[task]
    assert interval(ask(task, limit, *options, "--blind"), name)[0] <= CHANCE[task]


@pytest.mark.parametrize(
    ("mutation", "task", "limit", "options", "name"),
    [
        ("mirrored", "vstar_bench_relative_position", 60, (), "accuracy"),
        ("boundary", "vstar_bench", 60, ("--method", "likelihood"), "accuracy"),
        ("order", "voila_nd", 60, ("--set", "steps=1"), "step 1: subject type"),
        ("dropped", "voila_nd", 60, ("--set", "steps=1"), "step 1: subject type"),
    ],
)
def test_a_server_that_is_wrong_is_found_out(
    ask: Ask,
    mutation: str,
    task: str,
    limit: int,
    options: tuple[str, ...],
    name: str,
) -> None:
    whole = interval(ask(task, limit, *options), name)
    broken = interval(ask(task, limit, *options, mutation=mutation), name)
    assert broken[1] < whole[0], f"{mutation}: {broken}, whole: {whole}"


def test_a_template_that_the_model_was_not_trained_on_leaves_no_answer_that_can_be_read(ask: Ask) -> None:
    fine = "--set", "questions=fine"
    assert interval(ask("marvel", 30, *fine), "Fine")[0] > 0
    broken = ask("marvel", 30, *fine, mutation="template", code=4)
    assert broken["counts"]["unparsed"] > 15, "more than half: the run has no result, and exit code 4 says so"
