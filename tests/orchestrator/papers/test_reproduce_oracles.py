"""Tables remade with real servers whose answers are known."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from statistics import fmean
from typing import Any

import pytest
from helpers.engine_cluster import HERE, Cluster, Server
from helpers.reform_folder import write_folder

from orchestrator.benchmarks.reform.datasets import DATASETS

pytestmark = pytest.mark.full


def started(cluster: Cluster, script: str) -> Server:
    command = [sys.executable, str(HERE / script)]
    cluster.servers.append(Server(cluster.folder / f"server{len(cluster.servers)}", command).start())
    return cluster.servers[-1]


def reproduce(
    cluster: Cluster, paper: str, tables: str, models: dict[str, Server], code: int = 0, **options: Any
) -> list[dict[str, Any]]:
    file = cluster.folder / "models.yaml"
    named = {name: {"endpoint": server.address} for name, server in models.items()}
    file.write_text(json.dumps({"models": named, "options": options}))
    arguments = [word for table in tables.split() for word in ("--table", table)]
    arguments += ["--models", str(file), "--run", str(cluster.folder / "made"), "--json"]
    output = cluster.orchestrator("reproduce", paper, *arguments, code=code)
    remade, _ = json.JSONDecoder().raw_decode(output[output.index("[\n  {") :])
    assert code or not any(table["missing"] for table in remade)
    return list(remade)


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
    abstract, plot = reproduce(cluster, "voila", "abstract figure-6", models, **options)
    for name, column, value in (("LLaMa-3.2", "WD", 13), ("GPT-4o", "ND", 29)):
        assert values(abstract, name)[column] == values(plot, name)[column] == pytest.approx(value)
        (cell,) = (cell for cell in abstract["ours"][name] if cell["printed"] is not None)
        assert (cell["column"], cell["printed"], cell["verdict"]) == (column, value, "not compared")
        assert abstract["other_rows"][name] == "synthetic rows, the first 100 rows alone"


def test_voila_by_step_and_property(cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is wrong about numbers alone, in each way in which the paper asks."""
    monkeypatch.setenv("VOILA_ROWS", "38")
    monkeypatch.setenv("VOILA_WRONG", "number")
    monkeypatch.setenv("VOILA_RIGHT", "0,0")
    options = {"synthetic": True, "limit": 19, "scorer": shared_scorer.address}
    tables = reproduce(cluster, "voila", "2 3 4 true-steps", {"mine": started(cluster, "voila_server.py")}, **options)
    by_step, by_property, direct, true = (values(table, "mine") for table in tables)
    assert set(by_step.values()) == set(direct.values()) == set(true.values()) == {0.0}
    assert len(by_property) == 24
    for name, value in by_property.items():
        assert value == (0.0 if name.endswith(("number", "all three")) else 100.0), name
    contrasts = [(contrast["difference"], contrast["items"]) for table in tables[2:] for contrast in table["contrasts"]]
    assert contrasts == [(0.0, 19)] * 4


def test_reform_eval_s_averages_and_ranks(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 61 data sets of a model that sees colours and of one to which all is red; captions need Java to be scored."""
    write_folder(cluster.folder / "hub", 1)
    models = {"BLIP-2": started(cluster, "reform_server.py")}
    monkeypatch.setenv("COLOUR", "red")
    models["red"] = started(cluster, "reform_server.py")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        scorer = Server(cluster.folder / "scorer", [sys.executable, "-m", "scorer", "serve"]).start()
    cluster.servers.append(scorer)
    options = {"data": str(cluster.folder / "hub"), "scorer": scorer.address, "max_unparsed": 1}
    (table,) = reproduce(cluster, "reform", "1", models, code=3, **options)
    (short,) = (line for line in table["missing"] if "BLIP-2" in line)
    assert short.startswith("BLIP-2: generation score is over 7 of 8 dimensions, ")
    ours = {model: values(table, model) for model in models}
    assert len(by_hand(cluster, "BLIP-2", "likelihood")) == 6  # as in the paper
    hand = {model: by_hand(cluster, model, "likelihood") for model in models}
    for model, scores in hand.items():
        assert ours[model]["likelihood score"] == pytest.approx(fmean(scores.values()))
    assert ours["BLIP-2"]["generation score"] == pytest.approx(fmean(by_hand(cluster, "BLIP-2", "generation").values()))
    # Models that are alike share the better rank.
    pairs = [(score, hand["red"][name]) for name, score in hand["BLIP-2"].items()]
    ranks = [fmean(1 + (other > mine) for mine, other in pairs), fmean(1 + (mine > other) for mine, other in pairs)]
    assert [ours[model]["likelihood rank"] for model in models] == pytest.approx(ranks)
    assert ranks[0] < ranks[1]


def by_hand(cluster: Cluster, model: str, method: str) -> dict[str, float]:
    """The mean accuracy of the data sets of each dimension that has one, in percent."""
    (file,) = (cluster.folder / "made").rglob(f"{model}-reform-{method}/results.json")
    scores = defaultdict(list)
    for task, entry in json.loads(file.read_bytes())["tasks"].items():
        if method == "likelihood" and DATASETS[task].dimension == "stp":
            continue  # texts in images are read by generation alone
        for metric in entry["metrics"] if entry["counts"]["scored"] else ():  # nothing can be said where none is read
            if metric["name"] == "Accuracy" and not metric.get("labels"):
                scores[DATASETS[task].dimension].append(100 * metric["value"])
    return {name: fmean(accuracies) for name, accuracies in scores.items()}
