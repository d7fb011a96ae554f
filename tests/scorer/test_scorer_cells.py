"""Plugins in a cell: an answer that runs as code reaches nothing, not even the next answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.plugins import install, scorer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cells are closed by Linux: run the tests there")
PLUGIN = """
import math, os, pathlib, socket
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.metrics.base import Metric, Plan
from scorer.rule import Rule, scored

SEEN = []

def read(request):
    if not request.targets:
        raise RequestError("give a target")
    SEEN.append(request.key)
    value = eval(request.text)
    return scored(str(value), float(str(value) == request.targets[0]), details=str(len(SEEN)))

def plan(params):
    text = params.word("runs", "1")
    return Plan(lambda table: pb.MetricResult(value=eval(text) * table.values().mean(), denominator=len(table)))

RULE = Rule(name="runs", description="What the answer comes to.", read=read, cell=True)
METRIC = Metric(name="run_mean", description="A mean.", plan=plan, params={"runs": "code"}, unit="", cell=True)
"""
ENTRIES = "[lyncean.rules]\nruns = my_plugin:RULE\n[lyncean.metrics]\nrun_mean = my_plugin:METRIC\n"
PATCH = "setattr(__import__('scorer.rule').rule, 'scored', None) or setattr(math, 'sqrt', None) or 9"


def test_an_answer_of_a_rule_in_a_cell_reaches_nothing(tmp_path: Path) -> None:
    environment = install(tmp_path, PLUGIN, ENTRIES) | {"HF_TOKEN": "hf_secret"}
    (tmp_path / "token").write_text("hf_secret")
    answers = {
        "right": "1 + 2",
        "reads": f"pathlib.Path({str(tmp_path / 'token')!r}).read_text()",
        "environment": "os.environ.get('HF_TOKEN', 3)",
        "writes": f"pathlib.Path({str(tmp_path / 'written')!r}).write_text('x')",
        "connects": "socket.create_connection(('127.0.0.1', 9))",
        "takes": "len(bytes(8 << 30))",
        "ends": "os._exit(0)",
        "patches": PATCH,
        "after": "int(math.sqrt(9))",
        "raises": "1 / 0",
        "last": "3",
    }
    lines = [json.dumps({"key": key, "rule": "runs", "text": text, "targets": ["3"]}) for key, text in answers.items()]
    specs = tmp_path / "specs.json"
    wanted = [{"name": "plain", "metric": "run_mean"}]
    wanted.append({"name": "hostile", "metric": "run_mean", "params": {"runs": "len(os.listdir('/etc'))"}})
    specs.write_text(json.dumps(wanted))
    done = scorer(environment, "score", "-", "--metrics", str(specs), given="\n".join(lines))
    assert done.returncode == 0, done.stderr
    *verdicts, last = [json.loads(line) for line in done.stdout.splitlines()]
    verdict_of = {verdict["key"]: verdict for verdict in verdicts}
    for key in ("right", "environment", "after", "last"):
        assert (verdict_of[key]["outcome"], verdict_of[key]["score"], verdict_of[key]["details"]) == (
            "scored",
            1.0,
            "1",
        )
    limits = {"reads": "file: ", "writes": "file: ", "connects": "network: ", "takes": "memory: "}
    for key, limit in limits.items():
        assert (verdict_of[key]["outcome"], verdict_of[key]["reason"]) == ("unjudged", "task_limit")
        assert verdict_of[key]["detail"].startswith(limit)
    for key in ("ends", "raises"):
        assert (verdict_of[key]["outcome"], verdict_of[key]["reason"]) == ("unjudged", "task_failed")
    assert (verdict_of["patches"]["outcome"], verdict_of["patches"]["extracted"]) == ("scored", "9")
    assert "hf_secret" not in done.stdout + done.stderr
    assert not (tmp_path / "written").exists()
    plain, hostile = last["summary"]["metrics"]
    assert plain["value"] == pytest.approx(sum(verdict.get("score") or 0.0 for verdict in verdicts) / len(answers))
    assert "value" not in hostile or hostile["value"] is None


def test_a_request_at_fault_is_one(tmp_path: Path) -> None:
    environment = install(tmp_path, PLUGIN, ENTRIES)
    done = scorer(environment, "score", "-", given='{"key": "k", "rule": "runs", "text": "1"}')
    assert done.returncode != 0
    assert "give a target" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_system_that_closes_none_refuses(tmp_path: Path) -> None:
    environment = install(tmp_path, PLUGIN, ENTRIES)
    helper = Path(__file__).parents[1] / "helpers" / "without_landlock.py"
    command = [sys.executable, str(helper), sys.executable, "-m", "scorer", "score", "-"]
    line = '{"key": "k", "rule": "runs", "text": "3", "targets": ["3"]}'
    done = subprocess.run(command, input=line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "rule 'runs' asks for a closed process, which this system has not" in done.stderr
