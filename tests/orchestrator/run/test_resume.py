"""A run that goes on under other code or another judge: one run is one measurement, or it is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers.commands import orchestrator
from helpers.engine_cluster import HERE, ROOT, Cluster, Server
from helpers.judge_server import JudgeServer, Vendor
from helpers.python_path import python_path

from orchestrator.run_folder.index import Index

PLUGIN = """
from orchestrator.benchmarks.base import Benchmark
from orchestrator.samples import metric
from orchestrator.data.opening import open_rows
from orchestrator.data.table import Table
from orchestrator.samples import Call, Sample, Scoring, Turn, assistant, text_part, user
from lyncean.model.v1 import model_pb2 as model

TABLE = Table(hub="x/y", split="test", columns={"id": int, "answer": str}, images=())
CONFIG = model.GenerationConfig(max_output_tokens=8)
PROMPT, TARGET, FROM = "which?", "", 0


def samples(row, variant):
    if row["id"] < FROM:
        return

    def first(_):
        return Call((user(text_part(f"row {row['id']}: {PROMPT}")),), CONFIG)

    def second(answers):
        call = first(())
        return Call((*call.messages, assistant(answers[0].text), user(text_part("sure?"))), CONFIG)

    scoring = Scoring("contains_word", (TARGET or row["answer"],))
    yield Sample(variant.key(row["id"]), (Turn(first, "one"), Turn(second, "two", scoring)))


BENCHMARK = Benchmark(
    name="plugged",
    tasks={"plugged": "Rows of a plugin's"},
    data="a table",
    rows=lambda task, data: open_rows(data, TABLE),
    samples=samples,
    metrics=lambda variant: [metric("accuracy", "accuracy")],
    synthetic=lambda task, seed: iter(()),
    needs=lambda variant: (),
)
"""


class Plugin:
    """Somebody's package with one benchmark, whose code may be edited between two commands."""

    def __init__(self, cluster: Cluster, scorer: Server) -> None:
        self.cluster, self.scorer = cluster, scorer
        self.server = cluster.model("--concurrency", "1")
        self.folder = cluster.folder / "package"
        shutil.copytree(HERE / "toy" / "toybench-0.dist-info", self.folder / "plugged-0.dist-info")
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: plugged\nVersion: 0\n"),
            ("entry_points.txt", "[lyncean.benchmarks]\nplugged = plugged:BENCHMARK\n"),
        ):
            (self.folder / "plugged-0.dist-info" / name).write_text(text)
        self.write()
        rows = "".join(f'{{"id": {number}, "answer": "A"}}\n' for number in range(12))
        (cluster.folder / "rows.jsonl").write_text(rows)
        cluster.before = ["env", f"PYTHONPATH={python_path(self.folder, ROOT)}"]

    def write(self, old: str = "", new: str = "") -> None:
        assert old in PLUGIN
        # Bytecode of a file of the same size and second would be taken for its own.
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        (self.folder / "plugged.py").write_text(PLUGIN.replace(old, new, 1) if old else PLUGIN)

    def run(self, *options: str, code: int = 0) -> str:
        arguments = ("--task", "plugged", "--data", "rows.jsonl", *options)
        return self.cluster.eval("run", [self.server], self.scorer, *arguments, code=code)

    @property
    def log(self) -> bytes:
        return (self.cluster.folder / "run" / "responses.jsonl").read_bytes()


@pytest.fixture
def plugin(cluster: Cluster, shared_scorer: Server) -> Plugin:
    """A run that a budget stopped after some of its calls."""
    instance = Plugin(cluster, shared_scorer)
    instance.run("--max-tokens-total", "200", code=3)
    assert {line["turn"] for line in cluster.lines("run")} == {"one", "two"}
    assert len(cluster.lines("run")) < 24
    return instance


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"which?"', '"which one?"', "plugged/0:one would be asked otherwise now"),
        ('"sure?"', '"really?"', "plugged/0:two would be asked otherwise now"),
        ('"", 0', '"B", 0', "plugged/0:two would be judged otherwise now"),
        ('"", 0', '"", 3', "plugged/0:one would not be asked now"),
    ],
)
def test_another_prompt_target_or_choice_of_rows_is_refused(plugin: Plugin, old: str, new: str, message: str) -> None:
    before, manifest = plugin.log, (plugin.cluster.folder / "run" / "manifest.json").read_bytes()
    plugin.write(old, new)
    output = plugin.run(code=2)
    assert f"Error: run: the benchmark's code has changed since, and {message}" in output
    assert "give --run another folder, or run the version that began it" in output
    assert (plugin.log, (plugin.cluster.folder / "run" / "manifest.json").read_bytes()) == (before, manifest)
    plugin.write()
    plugin.run()
    assert plugin.cluster.counts("run", "plugged")["scored"] == 12


def test_other_code_that_asks_the_same_goes_on(plugin: Plugin) -> None:
    plugin.write("def samples", "# Says the same in other words.\ndef samples")
    assert "asks the same of what was answered" in plugin.run()
    assert plugin.cluster.counts("run", "plugged")["scored"] == 12
    assert set(plugin.cluster.calls().values()) == {1}
    manifest = json.loads((plugin.cluster.folder / "run" / "manifest.json").read_text())
    assert manifest["benchmarks_resumed"] != manifest["benchmarks"]
    assert "asks the same" not in plugin.run()


@pytest.mark.full
def test_another_judge_judges_everything_and_the_first_one_is_not_paid_again(tmp_path: Path) -> None:
    vendor = Vendor(lambda _: {"choice": "A"})

    def judged(run: str, judge: str) -> tuple[str, str]:
        """Returns what a command says and the one judge of all its verdicts."""
        arguments = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "6", "--judge-cache", "cache.sqlite"]
        arguments += ["--model", "demo:constant:whichever fits", "--run", run, "--judge", f"openai:{judge}@{url}"]
        output = orchestrator(*arguments, folder=tmp_path, environment={"LYNCEAN_JUDGE_KEY": "k3y"})
        last = Index(tmp_path / run)
        lines = (tmp_path / run / "verdicts.jsonl").read_bytes().splitlines()
        assert len(lines) == len(last) == 6
        models = {json.loads(line)["judge"]["model"] for line in lines}
        named = json.loads((tmp_path / run / "manifest.json").read_text())["judges"]
        assert len(models) == len(named) == 1
        assert f"openai:{judge}@" in named[0]
        return output, models.pop()

    with JudgeServer(vendor) as url:
        _, first = judged("run", "x")
        report, second = judged("run", "y")
        assert "the judges have changed since, from openai:x@" in " ".join(report.split())
        assert "every answer is scored anew" in " ".join(report.split())
        assert first != second
        assert vendor.charged == 12
        assert judged("run", "x")[1] == first
        assert "have changed" not in judged("run", "x")[0]
    assert vendor.charged == 12
