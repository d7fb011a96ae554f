"""All 61 datasets through the real engine and scorer over gRPC, asked of a model that sees one colour."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import HERE, Server
from helpers.reform_folder import write_folder

from orchestrator.benchmarks.reform.datasets import DATASETS
from orchestrator.cli import main

# Tasks decided by the colour of the image in any order of the options.
SEEN = [
    task
    for task, dataset in DATASETS.items()
    if dataset.family not in ("counting", "dialog", "captions", "snli_ve", "words", "key_information", "text_questions")
    and task not in ("reform_tdiuc_counting",)
]


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("colours"), [sys.executable, str(HERE / "reform_server.py")]).start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def scorer_without_java(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        server = Server(tmp_path_factory.mktemp("plain"), [sys.executable, "-m", "scorer", "serve"]).start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    write_folder(folder, 3)
    return folder


def evaluate(colours, scorer, run, *options):
    base = ["--endpoint", colours.address, "--scorer", scorer.address, "--run", str(run), "--quiet"]
    return CliRunner().invoke(main, ["eval", *base, *map(str, options)])


def results(run):
    return json.loads((run / "results.json").read_text())["tasks"]


def accuracy(entry):
    return next(metric["value"] for metric in entry["metrics"] if metric["name"] == "Accuracy")


@pytest.mark.parametrize("method", ["generate", "likelihood"])
def test_all_61(method, colours, shared_scorer, data, tmp_path):
    run = tmp_path / "run"
    options = [word for task in DATASETS if DATASETS[task].family != "captions" for word in ("--task", task)]
    options += ["--method", method, "--shuffle-options", "--max-unparsed", "1"]
    done = evaluate(colours, shared_scorer, run, *options, "--data", data)
    assert done.exit_code == 0, done.output
    entries = results(run)
    assert len(entries) == 57
    for task, entry in entries.items():
        rounds = 4 if DATASETS[task].family == "dialog" else 1
        assert entry["counts"]["planned"] == 3 * rounds
        assert entry["counts"]["rejected"] == entry["counts"]["failed"] == 0, task
    assert [task for task in SEEN if accuracy(entries[task]) != 1] == []
    open_ended = {task for task, dataset in DATASETS.items() if dataset.dimension == "stp"}
    for line in map(json.loads, (run / "responses.jsonl").read_text().splitlines()):
        asked_likelihood = "continuations" in line["request"]
        assert asked_likelihood == (method == "likelihood" and line["task"] not in open_ended)


def test_captions_are_generated_whatever_the_method(colours, scorer_without_java, data, tmp_path):
    run = tmp_path / "run"
    options = [word for name in ("textcaps", "nocaps", "flickr30k") for word in ("--task", f"reform_{name}")]
    done = evaluate(
        colours, scorer_without_java, run, *options, "--data", data, "--limit", 2, "--method", "likelihood", "--parity"
    )
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in (run / "responses.jsonl").read_text().splitlines()]
    assert {line["request"]["config"]["max_output_tokens"] for line in lines} == {14, 15, 16}
    metrics = {metric["name"]: metric for metric in results(run)["reform_nocaps"]["metrics"]}
    assert set(metrics) == {
        f"{name} (raw text)" for name in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr")
    }
    assert metrics["ROUGE-L (raw text)"]["value"] > 0
    assert metrics["METEOR (raw text)"]["value"] is None
    assert "needs Java" in metrics["METEOR (raw text)"]["details"]["not_computed"]


@pytest.mark.parametrize("parity", [(), ("--parity",)])
def test_repeats_measure_instability(parity, colours, shared_scorer, data, tmp_path):
    run = tmp_path / "run"
    flags = ["--task", "reform_gqa", "--data", data, "--repeats", 5, "--shuffle-options", "--set", "option_mark=random"]
    done = evaluate(colours, shared_scorer, run, *flags, *parity)
    assert done.exit_code == 0, done.output
    entry = results(run)["reform_gqa"]
    assert entry["counts"]["planned"] == 15
    assert accuracy(entry) == 1
    assert next(metric["value"] for metric in entry["metrics"] if metric["name"] == "Instability") == 0
    texts = {
        line["request"]["messages"][-1]["parts"][-1]["text"]
        for line in map(json.loads, (run / "responses.jsonl").read_text().splitlines())
    }
    assert len(texts) > 10


def test_a_dialogue_hears_its_own_answers(colours, shared_scorer, data, tmp_path):
    run = tmp_path / "run"
    options = ["--task", "reform_visdial", "--data", data, "--limit", 1, "--repeats", 2]
    assert evaluate(colours, shared_scorer, run, *options).exit_code == 0
    lines = [json.loads(line) for line in (run / "responses.jsonl").read_text().splitlines()]
    assert [line["turn"] for line in lines] == ["0", "0#1", "1", "1#1", "2", "2#1", "3", "3#1"]
    last = [part["text"] for message in lines[-1]["request"]["messages"] for part in message["parts"] if "text" in part]
    record = next(
        iter(json.loads((data / "huggingface_data" / DATASETS["reform_visdial"].file).read_text())["data"]["dialogs"])
    )
    assert len(last) == 2 + 2 * 3 + 1
    assert last[3].startswith("(")
    assert "something" in last[5]
    assert len(record["dialog"]) == 4
    entry = results(run)["reform_visdial"]
    assert entry["counts"]["planned"] == 8
    rounds = next(metric for metric in entry["metrics"] if metric["metric"] == "multi_round")
    assert [point["items"] for point in rounds["details"]["rounds"]] == [2, 2, 2, 2]


def test_a_layout_is_one_text(colours, shared_scorer, data, tmp_path):
    run = tmp_path / "run"
    options = ["--task", "reform_gqa", "--data", data, "--set", "prompt_style=lynx", "--parity"]
    assert evaluate(colours, shared_scorer, run, *options).exit_code == 0
    for line in map(json.loads, (run / "responses.jsonl").read_text().splitlines()):
        (message,) = line["request"]["messages"]
        assert message["parts"][1]["text"].endswith(".\nBot: The answer is")
    assert accuracy(results(run)["reform_gqa"]) == 1


def test_a_bad_row_is_rejected_and_the_rest_goes_on(colours, shared_scorer, data, tmp_path):
    folder = tmp_path / "hub"
    write_folder(folder, 4, tasks=["reform_gqa"])
    file = folder / "huggingface_data" / DATASETS["reform_gqa"].file
    content = json.loads(file.read_text())
    content["data"][0]["answer"] = "none of them"
    content["data"][1]["image_id"] = "%%%"
    content["data"][2]["image_id"] = ""
    file.write_text(json.dumps(content))
    run = tmp_path / "run"
    assert evaluate(colours, shared_scorer, run, "--task", "reform_gqa", "--data", folder).exit_code == 4
    assert (
        results(run)["reform_gqa"]["counts"] | {"planned": 4, "scored": 1, "rejected": 3}
        == results(run)["reform_gqa"]["counts"]
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--set", "option_mark=roman"], "upper, number, random"),
        (["--set", "formulation=KIEOpenEnded"], "SingleChoice"),
        (["--data", "/nowhere"], "no data at"),
    ],
)
def test_mistakes_are_one_line(options, says, colours, shared_scorer, tmp_path, data):
    options = [*options, *([] if "--data" in options else ["--data", data])]
    done = evaluate(colours, shared_scorer, tmp_path / "run", "--task", "reform_gqa", *options)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output
