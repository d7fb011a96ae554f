"""Tables remade with real servers whose answers are known."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Cluster, Server

pytestmark = pytest.mark.full


def started(cluster: Cluster, script: str) -> Server:
    command = [sys.executable, str(HERE / script)]
    cluster.servers.append(Server(cluster.folder / f"server{len(cluster.servers)}", command).start())
    return cluster.servers[-1]


def made(cluster: Cluster, paper: str, tables: str, models: dict[str, Server], **options: Any) -> list[dict[str, Any]]:
    file = cluster.folder / "models.yaml"
    named = {name: {"endpoint": server.address} for name, server in models.items()}
    file.write_text(json.dumps({"models": named, "options": options}))
    words = [word for table in tables.split() for word in ("--table", table)]
    words += ["--models", str(file), "--run", str(cluster.folder / "made"), "--json"]
    output = cluster.orchestrator("reproduce", paper, *words)
    found, _ = json.JSONDecoder().raw_decode(output[output.index("[\n  {") :])
    assert not any(table["missing"] for table in found)
    return list(found)


def values(table: dict[str, Any], model: str) -> dict[str, float]:
    return {cell["column"]: cell["value"] for cell in table["ours"][model]}


def test_the_abstract_s_numbers_of_voila(
    cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """13 of 100 questions with distraction are answered right, of another model 29 without: the abstract's percents."""
    monkeypatch.setenv("VOILA_ROWS", "100")
    monkeypatch.setenv("VOILA_WRONG", "action")
    models = {}
    for name, right in (("LLaMa-3.2", "13,0"), ("GPT-4o", "0,29")):
        monkeypatch.setenv("VOILA_RIGHT", right)
        models[name] = started(cluster, "voila_server.py")
    options = {"synthetic": True, "limit": 100, "scorer": shared_scorer.address}
    abstract, plot = made(cluster, "voila", "abstract figure-6", models, **options)
    for name, column, value in (("LLaMa-3.2", "WD", 13), ("GPT-4o", "ND", 29)):
        assert values(abstract, name)[column] == values(plot, name)[column] == pytest.approx(value)
        (cell,) = (cell for cell in abstract["ours"][name] if cell["printed"] is not None)
        assert (cell["column"], cell["printed"], cell["verdict"]) == (column, value, "too few to tell")


def test_voila_by_step_and_property(cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is wrong about numbers alone, in each way in which the paper asks."""
    monkeypatch.setenv("VOILA_ROWS", "38")
    monkeypatch.setenv("VOILA_WRONG", "number")
    monkeypatch.setenv("VOILA_RIGHT", "0,0")
    options = {"synthetic": True, "limit": 19, "scorer": shared_scorer.address}
    tables = made(cluster, "voila", "2 3 4 true-steps", {"mine": started(cluster, "voila_server.py")}, **options)
    by_step, by_property, direct, true = (values(table, "mine") for table in tables)
    assert set(by_step.values()) == set(direct.values()) == set(true.values()) == {0.0}
    assert len(by_property) == 24
    for name, value in by_property.items():
        assert value == (0.0 if name.endswith(("number", "all three")) else 100.0), name
    contrasts = [(each["difference"], each["items"]) for table in tables[2:] for each in table["contrasts"]]
    assert contrasts == [(0.0, 19)] * 4
