"""Runs the commands and examples of pages on the scorer.

docs/write-a-rule.md, docs/extraction.md, docs/judges.md and docs/read-the-numbers.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.judge_server import JudgeServer, Vendor
from helpers.page_commands import commands
from helpers.python_path import python_path

from lyncean.rpc import dial, is_serving
from scorer.calibration import SETS, cases
from scorer.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def blocks(language: str) -> list[str]:
    page = (DOCS / "write-a-rule.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": python_path(folder), "PATH": path}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_yaml_example_scores_its_line(tmp_path: Path) -> None:
    (text,), (command,) = blocks("yaml"), blocks("sh")
    (tmp_path / "my_rules.yaml").write_text(text)
    done = run(tmp_path, "sh", "-c", command)
    assert json.loads(done.stdout)["extracted"] == "C", done.stderr


def test_the_python_examples_work_and_pass_their_tests(tmp_path: Path) -> None:
    for text in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", text)
        assert name is not None
        (tmp_path / name.group(1)).write_text(text)
    done = run(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_rules.py")
    assert done.returncode == 0, done.stdout
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    entries = "[lyncean.rules]\nthumbs = my_rules:RULE\n[lyncean.metrics]\nshare_above = my_metrics:METRIC\n"
    (info / "entry_points.txt").write_text(entries)
    (tmp_path / "specs.json").write_text('[{"name": "share", "metric": "share_above"}]')
    (tmp_path / "items.jsonl").write_text('{"key": "k", "rule": "thumbs", "text": "Yes.", "targets": ["yes"]}\n')
    done = run(tmp_path, "scorer", "score", "items.jsonl", "--metrics", "specs.json")
    verdict, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert verdict["extracted"] == "yes"
    assert summary["summary"]["metrics"][0]["value"] == 1.0


def test_an_answer_is_read_and_the_rules_are_listed(tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-euc", "\n".join(commands(DOCS / "extraction.md")))
    verdict, *listed = done.stdout.splitlines()
    assert json.loads(verdict)["extracted"] == "C", done.stderr
    assert any(line.startswith("  choice ") for line in listed)


def test_metrics_without_a_service(tmp_path: Path) -> None:
    (command,) = commands(DOCS / "read-the-numbers.md")
    page = (DOCS / "read-the-numbers.md").read_text(encoding="utf-8")
    (specs,) = re.findall(r"list of MetricSpec such as `(.*?)`", page)
    (tmp_path / "specs.json").write_text(specs)
    item = {"key": "k", "rule": "choice", "text": "B", "targets": ["B"], "labels": {"pattern": "rows"}}
    known = {"key": "l", "labels": item["labels"], "verdict": {"outcome": "scored", "score": 0.0}}
    (tmp_path / "items.jsonl").write_text(f"{json.dumps(item)}\n{json.dumps(known)}\n")
    done = run(tmp_path, *shlex.split(command))
    summary = json.loads(done.stdout.splitlines()[-1])["summary"]
    assert summary["counts"]["planned"] == summary["counts"]["scored"] == "2"
    assert [(metric["name"], metric.get("labels", {}), metric["value"]) for metric in summary["metrics"]] == [
        ("acc", {}, 0.5),
        ("acc", {"pattern": "rows"}, 0.5),
    ]


async def serving(address: str) -> None:
    """Waits until a scorer's health says so: signals drain it from then on."""
    async with dial(address) as channel:
        while not await is_serving(channel, "lyncean.scorer.v1.ScorerService"):
            await asyncio.sleep(0.02)


@pytest.mark.full
def test_judges_are_served(tmp_path: Path) -> None:
    lines = [line for line in commands(DOCS / "judges.md") if line.startswith("scorer serve ")]
    environment = {**os.environ, "LYNCEAN_JUDGE_KEY": "k3y", "HOME": str(tmp_path)}
    assert len(lines) == 6
    (tmp_path / "token").write_text("t0ken")
    for number, line in enumerate(lines):
        arguments = shlex.split(line.replace("/state/", f"{tmp_path}/"), comments=True)
        port = tmp_path / f"port{number}"
        command = [sys.executable, "-m", *arguments, "--port", "0", "--port-file", str(port)]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        try:
            while not port.exists():
                assert process.poll() is None, f"{line}\n{process.communicate()[1].decode()}"
                time.sleep(0.02)
            asyncio.run(serving(f"127.0.0.1:{int(port.read_text())}"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, line
        finally:
            process.kill()
            process.communicate()


def test_a_judge_is_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LYNCEAN_JUDGE_KEY", "k3y")
    case = {"question": "What color?", "targets": ["red"], "answer": "red", "expected": {"correct": True}}
    (tmp_path / "mine.jsonl").write_text(json.dumps(case) + "\n")
    shipped, custom = [line for line in commands(DOCS / "judges.md") if line.startswith("scorer calibrate ")]
    with JudgeServer(Vendor(lambda _: {"explanation": "because", "correct": True})) as url:
        outputs = []
        for line in (shipped, custom):
            arguments = shlex.split(line.replace("openai:MODEL", f"openai:MODEL@{url}"))[1:]
            done = CliRunner().invoke(main, [*arguments, "--judge-cache", str(tmp_path / "judge.sqlite")])
            assert done.exit_code == 0, f"{line}\n{done.output}"
            outputs.append(done.stdout)
    assert re.findall(r"^(\w+): agrees with", outputs[0], re.MULTILINE) == sorted(SETS)
    assert sum(len(cases(name)) for name in SETS) == 82
    measured = json.loads(outputs[1])
    assert (measured["name"], measured["decisions"], measured["agreed"]) == ("open_answer", 1, 1)
