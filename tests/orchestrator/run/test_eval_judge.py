"""`orchestrator eval --judge`: re-reading end to end, what the run records, and no secret in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.judge_server import JudgeServer, Vendor

SECRETS = ("k3y-of-the-judge", "passw0rd")


def evaluate(tmp_path: Path, model: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", "eval", "--task", "marvel", "--set", "questions=avr"]
    command += ["--synthetic", "--limit", "6", "--model", model, "--run", str(tmp_path / "run"), *more]
    environment = {**os.environ, "LYNCEAN_JUDGE_KEY": SECRETS[0]}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(("answer", "asked"), [("whichever fits", True), ("2", False)])
def test_what_a_rule_cannot_read_the_judge_reads(tmp_path: Path, answer: str, asked: bool) -> None:
    vendor = Vendor(lambda _: {"choice": "2"})
    with JudgeServer(vendor) as url:
        other = url.replace("127.0.0.1", f"user:{SECRETS[1]}@127.0.0.1")
        judges = ["--judge", f"openai:x@{url}", "--judge", f"openai:y@{other}"]
        done = evaluate(tmp_path, f"demo:constant:{answer}", *judges, "--judge-cache", str(tmp_path / "cache.sqlite"))
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()]
    assert len(verdicts) == 6
    assert {verdict["extracted"] for verdict in verdicts} == {"2"}
    assert all((verdict.get("reason") == "judge_reread") == asked for verdict in verdicts)
    assert all(len(verdict.get("panel", ())) == (2 if asked else 0) for verdict in verdicts)
    assert ("never needed" in done.stdout) == (not asked)
    assert bool(vendor.charged) == asked
    everything = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    for secret in SECRETS:
        assert secret.encode() not in everything
        assert secret not in done.stdout + done.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert len(manifest["judges"]) == 2
    metrics = json.loads((tmp_path / "run" / "results.json").read_text())["tasks"]["marvel"]["metrics"]
    assert any(metric["metric"] == "judge_agreement" for metric in metrics)


def test_a_judge_for_a_scorer_of_ones_own_is_refused(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "demo", "--scorer", "127.0.0.1:1", "--judge", "openai:x")
    assert done.returncode == 2
    assert "scorer serve" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
