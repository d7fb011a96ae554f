"""Visual CoT from end to end: real model servers that draw, and one that does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from helpers.engine_cluster import HERE, Cluster, Server

BIN = Path(sys.executable).parent
TASK = ("--task", "VisualPuzzles_visual_cot", "--limit", "5")


@pytest.fixture
def serve(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    def start(kind: str) -> Server:
        monkeypatch.setenv("VISUAL_COT", kind)
        script = HERE / "visual_cot_server.py"
        server = Server(cluster.folder / f"{kind}{len(cluster.servers)}", [sys.executable, str(script)]).start()
        cluster.servers.append(server)
        return server

    return start


def lines(cluster: Cluster, name: str) -> list[dict]:
    return [json.loads(line) for line in (cluster.folder / "run" / name).read_text().splitlines()]


def accuracy(cluster: Cluster) -> float:
    metrics = json.loads(cluster.results("run"))["tasks"]["VisualPuzzles_visual_cot"]["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "accuracy" and not metric["labels"])


def test_one_model_draws_and_answers(cluster, serve, shared_scorer):
    cluster.eval("run", [serve("both")], shared_scorer, *TASK)
    assert accuracy(cluster) == 100
    responses = {line["key"]: line for line in lines(cluster, "responses.jsonl")}
    assert len(responses) == 10
    drawn = responses["VisualPuzzles_visual_cot/algorithmic/0:diagram"]["response"]["parts"]
    assert [part.get("text") for part in drawn] == ["Here it is.", None]
    sent = responses["VisualPuzzles_visual_cot/algorithmic/0:answer"]["request"]["messages"][0]["parts"]
    assert sent[1]["image"]["sha256"] == drawn[1]["image"]["sha256"]
    for line in responses.values():
        for message in line["request"]["messages"]:
            for part in message["parts"]:
                if "image" in part:
                    assert (cluster.folder / "run" / "images" / part["image"]["sha256"]).exists()


def test_another_model_draws(cluster, serve, shared_scorer):
    reader, drawer = serve("reader"), serve("both")
    cluster.eval("run", [reader], shared_scorer, *TASK, "--stage", f"generate={drawer.address}")
    assert accuracy(cluster) == 100
    replicas = {line["turn"]: line["replica"] for line in lines(cluster, "responses.jsonl")}
    assert replicas == {"diagram": drawer.address, "answer": reader.address}


@pytest.mark.parametrize("way", ["chat", "responses", "images"])
def test_an_openai_compatible_endpoint_draws(way, cluster, serve, shared_scorer):
    url = f"http://{serve('endpoint').address}/v1"
    command = [str(BIN / "model-server"), "serve", "--backend", "openai", "--model", "m", "--base-url", url]
    server = Server(cluster.folder / "proxy", [*command, "--image-output", way]).start()
    cluster.servers.append(server)
    cluster.eval("run", [server], shared_scorer, *TASK)
    assert accuracy(cluster) == 100


def test_a_model_that_cannot_draw_is_refused_at_the_start(cluster, serve, shared_scorer):
    reader = serve("reader")
    output = cluster.eval("run", [reader], shared_scorer, *TASK, code=2)
    assert "does not claim IMAGE_OUTPUT, which VisualPuzzles_visual_cot needs" in output
    assert "--stage generate=H:P" in output
    output = cluster.eval("run", [reader], shared_scorer, *TASK, "--stage", f"draw={reader.address}", code=2)
    assert "--stage draw: VisualPuzzles_visual_cot has no such stage; known here: generate" in output


def test_words_in_place_of_a_diagram_are_an_outcome_of_their_own(cluster, serve, shared_scorer):
    cluster.eval("run", [serve("writer")], shared_scorer, *TASK, code=4)
    assert accuracy(cluster) == 0
    verdicts = lines(cluster, "verdicts.jsonl")
    assert [(line["outcome"], line["reason"]) for line in verdicts] == [("unparsed", "no_image")] * 5
    texts = [line["response"]["parts"][0]["text"] for line in lines(cluster, "responses.jsonl") if "response" in line]
    assert texts == ["I would rather describe it: a circle."] * 5
