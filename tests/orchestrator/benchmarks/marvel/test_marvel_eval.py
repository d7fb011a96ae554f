"""All of MARVEL over gRPC: a model server that always answers the same, a scorer, the command line."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.bench_scoring import shared_data
from helpers.engine_cluster import Cluster, Server
from helpers.marvel_published import ALWAYS, CONFIGURATIONS, PATTERNS


def always(cluster: Cluster, choice: int) -> Server:
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "demo", "--model", f"constant:{choice}"]
    server = Server(cluster.folder / f"always{choice}", command).start()
    cluster.servers.append(server)
    return server


def run(cluster: Cluster, scorer: Server, choice: int, *options: str) -> dict:
    data = shared_data("marvel", "marvel.parquet")
    cluster.eval("run", [always(cluster, choice)], scorer, "--task", "marvel", "--data", str(data), *options)
    return json.loads(cluster.results("run"))["tasks"]["marvel"]


def percents(task: dict) -> tuple[float, ...]:
    values = {tuple(f["labels"].values()): round(100 * f["value"], 2) for f in task["metrics"] if f["name"] == "AVR"}
    return tuple(values[key] for key in [(), *((name,) for name in (*PATTERNS, *CONFIGURATIONS))])


@pytest.mark.weekly
def test_always_one_in_3850_calls(cluster: Cluster, shared_scorer: Server) -> None:
    task = run(cluster, shared_scorer, 1)
    assert task["counts"]["planned"] == task["counts"]["scored"] + task["counts"]["unparsed"] == 3850
    assert percents(task) == ALWAYS[1]


@pytest.mark.weekly
@pytest.mark.parametrize("choice", [2, 3, 4])
def test_always_another_choice(cluster: Cluster, shared_scorer: Server, choice: int) -> None:
    assert percents(run(cluster, shared_scorer, choice, "--set", "questions=avr")) == ALWAYS[choice]
