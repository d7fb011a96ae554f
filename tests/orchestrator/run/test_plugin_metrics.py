"""A run with rules and metrics of a plugin, some of which do not keep what they promise."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server, environment

PLUGIN = """
import os

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Plan


def changes(table):
    table.score[:] = 1.0
    return pb.MetricResult(value=1.0)


def forged(table):
    result = pb.MetricResult(value=0.5, denominator=1)
    result.details["share"] = float("nan")
    return result


def nested(table):
    result = pb.MetricResult(value=0.5)
    inner = result.details
    for _ in range(200):
        inner = inner.get_or_create_struct("deeper")
    return result


def items(table):
    raise LookupError("no clusters")


COMPUTE = {
    "raises": lambda table: {}["two\\nrows\\x1b[31m"],
    "exits": lambda table: os.sys.exit("wants a package"),
    "no_result": lambda table: 0.25,
    "endless": lambda table: pb.MetricResult(value=float("inf")),
    "reversed": lambda table: pb.MetricResult(value=1, interval=pb.Interval(low=2, high=1)),
    "forged": forged,
    "nested": nested,
    "changes": changes,
    "labelled": lambda table: pb.MetricResult(value=0.75, labels={"topic": "none"}),
    "halves": lambda table: pb.MetricResult(value=1 / (len(table) - 2)),
}
if "MENDED" in os.environ:
    COMPUTE = dict.fromkeys(COMPUTE, lambda table: pb.MetricResult(value=0.75))
METRICS = [Metric(name=n, description=n, plan=lambda _, n=n: Plan(COMPUTE[n], items=items)) for n in COMPUTE]
globals().update({metric.name: metric for metric in METRICS})
"""
FAILING = {
    "raises": "KeyError: 'two\\nrows\\x1b[31m'",
    "exits": "SystemExit: wants a package",
    "no_result": "it returned a float, not a MetricResult",
    "endless": "its value is inf",
    "reversed": "its interval is [2.0, 1.0]",
    "forged": "its details cannot be written as JSON",
    "nested": "its details cannot be written as JSON",
    "changes": "ValueError: assignment destination is read-only",
}
NAMES = [*FAILING, "labelled", "halves"]


def plugin(folder: Path, code: str, **groups: list[str]) -> Path:
    """Writes an installed distribution of one module into a folder."""
    info = folder / "hostile_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "hostile_plugin.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile-plugin\nVersion: 1.0\n")
    entries = "\n".join(
        f"[lyncean.{group}]\n" + "".join(f"{name} = hostile_plugin:{name}\n" for name in names)
        for group, names in groups.items()
    )
    (info / "entry_points.txt").write_text(entries)
    return folder


def scorer(cluster: Cluster, folder: Path, *variables: str) -> Server:
    """Starts a scorer that finds the plugin in a folder."""
    path = f"PYTHONPATH={folder}{os.pathsep}{environment()['PYTHONPATH']}"
    command = ["env", path, *variables, sys.executable, "-m", "scorer", "serve"]
    server = Server(cluster.folder / f"scorer{len(cluster.servers)}", command).start()
    cluster.servers.append(server)
    return server


def results(cluster: Cluster, run: str) -> dict[tuple[str, str], Any]:
    metrics = json.loads(cluster.results(run))["tasks"]["rows"]["metrics"]
    return {(metric["name"], metric["labels"].get("topic", "")): metric for metric in metrics}


def rows(folder: Path, metrics: str, rule: str = "choice", more: str = "") -> None:
    lines = [f"q{n},row {n}: what?,yes,no,A,{'odd' if n % 3 else 'even'}\n" for n in range(6)]
    (folder / "rows.csv").write_text("id,question,A,B,answer,topic\n" + "".join(lines))
    (folder / "rows.yaml").write_text(
        "data: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\nlabels: topic\n"
        f"rule: {rule}\nmetrics: [{metrics}]\n{more}"
    )


def test_a_metric_that_fails_is_one_undefined_metric(cluster: Cluster, tmp_path: Path) -> None:
    folder = plugin(tmp_path / "plugin", PLUGIN, metrics=NAMES)
    rows(tmp_path, ", ".join(["accuracy", *NAMES, "choice_bias"]))
    options = ("--task", "rows.yaml", "--data", "rows.csv")
    output = cluster.eval("run", [cluster.model()], scorer(cluster, folder), *options, code=4)
    metrics = results(cluster, "run")
    for name, reason in FAILING.items():
        for topic in ("", "odd", "even"):
            metric = metrics[name.replace("_", " "), topic]
            assert metric["value"] is None
            assert metric["details"]["metric_failed"].startswith(reason)
        assert f"rows, {name.replace('_', ' ')}: {reason}" in output
    assert "9 metrics could not be computed, all others stand" in output
    assert "orchestrator score run" in output
    # Only the slice of two rows divides by zero, and the comparison of slices is lost, not the slices.
    assert "rows, halves [topic=even]: ZeroDivisionError" in output
    assert (metrics["halves", ""]["value"], metrics["halves", "odd"]["value"]) == (0.25, 0.5)
    assert metrics["labelled", "odd"]["details"]["against_rest"] == {"metric_failed": "LookupError: no clusters"}
    assert metrics["labelled", ""]["value"] == 0.75
    assert metrics["accuracy", ""]["denominator"] == 6
    assert metrics["choice bias", ""]["denominator"] == 3
    assert "\x1b[31m" not in output

    page = (tmp_path / "run" / "report.html").read_text()
    assert len(re.findall("Not computed: rows, ", page)) == 9
    mended = scorer(cluster, folder, "MENDED=1")
    cluster.orchestrator("score", "run", "--scorer", mended.address)
    assert {metric["value"] for (name, _), metric in results(cluster, "run").items() if name in FAILING} == {0.75}


@pytest.mark.parametrize("code", ["{}['x']", "params.level / 0"])
def test_a_metric_that_cannot_read_its_parameters_is_refused_before_any_request(
    cluster: Cluster, tmp_path: Path, code: str
) -> None:
    text = "from scorer.metrics.base import Metric\n"
    text += f"broken = Metric(name='broken', description='x', plan=lambda params: {code})"
    folder = plugin(tmp_path / "plugin", text, metrics=["broken"])
    rows(tmp_path, "accuracy, broken")
    options = ("--task", "rows.yaml", "--data", "rows.csv")
    output = cluster.eval("run", [cluster.model()], scorer(cluster, folder), *options, code=2)
    assert "metric 'broken' cannot read its parameters" in output
    assert not cluster.calls()


RECORDS = """
import json
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Plan
from scorer.rule import Rule, scored

def read(request):
    record = json.dumps({"said": request.text, "größe": len(request.text) + 0.1, "secret": "zebra"})
    return scored(request.text, float(request.text in request.targets), details=record)

def compute(table):
    found = [json.loads(word) for word in table.word("details") if word]
    return pb.MetricResult(value=sum(one["größe"] for one in found), denominator=len(found))

recorded = Rule(name="recorded", description="Keeps a record.", read=read)
sizes = Metric(name="sizes", description="Of the records.", plan=lambda _: Plan(compute, frozenset({"details"})))
"""


def test_a_rules_record_reaches_its_metric_however_the_run_went(cluster: Cluster, tmp_path: Path) -> None:
    folder = plugin(tmp_path / "plugin", RECORDS, rules=["recorded"], metrics=["sizes"])
    rows(tmp_path, "accuracy, sizes", "recorded")
    server, model = scorer(cluster, folder), cluster.model()
    options = ("--task", "rows.yaml", "--data", "rows.csv")
    cluster.eval("run", [model], server, *options)
    whole = cluster.results("run")
    assert results(cluster, "run")["sizes", ""]["value"] == pytest.approx(6 * 1.1)

    # Killed between an answer and its verdict, and before the results.
    shutil.copytree(tmp_path / "run", tmp_path / "cut")
    for name, kept in (("responses.jsonl", 4), ("verdicts.jsonl", 2)):
        lines = (tmp_path / "cut" / name).read_bytes().splitlines(keepends=True)
        (tmp_path / "cut" / name).write_bytes(b"".join(lines[:kept]))
    (tmp_path / "cut" / "results.json").unlink()
    cluster.eval("cut", [model], server, *options)
    assert cluster.results("cut") == whole
    for number in (0, 1):
        cluster.eval(f"shard{number}", [model], server, *options, "--shard", f"{number}/2")
    cluster.orchestrator("merge", "shard0", "shard1", "--run", "merged", "--scorer", server.address)
    assert cluster.results("merged") == whole
    output = cluster.orchestrator("score", "run", "--scorer", server.address)
    assert cluster.results("run") == whole

    output += cluster.orchestrator("compare", "run", "cut", "--html", "compare.html")
    assert {json.loads(line["details"])["secret"] for line in cluster.lines("run", "verdicts.jsonl")} == {"zebra"}
    page = (tmp_path / "run" / "report.html").read_text() + (tmp_path / "compare.html").read_text()
    packed = re.findall(r'type="application/gzip" id="[^"]*">([^<]+)<', page)
    assert len(packed) > 1
    assert "zebra" not in output + page
    assert not any(b"zebra" in gzip.decompress(base64.b64decode(chunk)) for chunk in packed)


def test_a_record_beyond_bounds_names_its_item(cluster: Cluster, tmp_path: Path) -> None:
    code = RECORDS.replace("json.dumps(", '"x" * 1_048_576 + json.dumps(')
    folder = plugin(tmp_path / "plugin", code, rules=["recorded"], metrics=["sizes"])
    rows(tmp_path, "accuracy", "recorded")
    options = ("--task", "rows.yaml", "--data", "rows.csv")
    output = cluster.eval("run", [cluster.model()], scorer(cluster, folder), *options, code=2)
    assert "item 'rows/q0': the rule's details have 1,048," in output
    assert "the limit is 1,048,576" in output


ALL_ITEMS = """
import json
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Plan
from scorer.metrics.table import OUTCOMES
from scorer.rule import Rule, scored

def read(request):
    return scored("silence", 0.5) if not request.text else scored(request.text, 1.0, details="heard")

def compute(table):
    result = pb.MetricResult(value=0.0)
    words = [table.word(name) for name in ("key", "extracted", "params")]
    for outcome, key, extracted, params in zip(table.outcome, *words):
        page = json.loads(params)["row"]["page"] if params else ""
        result.details[key] = f"{OUTCOMES[outcome]} {extracted}{page}"
    return result

hears = Rule(name="hears", description="Silence too.", read=read, reads_empty=True, params={"row": "the row"})
columns = frozenset({"key", "params", "extracted"})
every = Metric(name="every", description="Lists all items.", plan=lambda _: Plan(compute, columns))
"""


def test_a_rule_may_see_empty_answers_and_a_metric_the_rows_without_one(cluster: Cluster, tmp_path: Path) -> None:
    folder = plugin(tmp_path / "plugin", ALL_ITEMS, rules=["hears"], metrics=["every"])
    rows(tmp_path, "accuracy, every", "hears", "params: {row: {page: vii}}\n")
    model = cluster.model("--too-long", "3", "--empty", "5", "--filtered", "4")
    server = scorer(cluster, folder)
    for run in ("run", "run"):  # the second time from the run folder alone
        cluster.eval(run, [model], server, "--task", "rows.yaml", "--data", "rows.csv")
        details = results(cluster, "run")["every", ""]["details"]
        assert details.pop("no_interval") == "the metric makes none; the parameter bootstrap asks for one"
        assert details == {
            "rows/q0": "rejected vii", "rows/q1": "scored B", "rows/q2": "scored C", "rows/q3": "rejected vii",
            "rows/q4": "refused vii", "rows/q5": "scored silence",
        }  # fmt: skip
    assert results(cluster, "run")["accuracy", ""]["value"] == pytest.approx(2.5 / 6)
