"""What a resumed run, and one that is scored again, asks of a judge whose replies were not usable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.judge_server import JudgeServer, Vendor


def test_a_resumed_run_asks_nothing_and_scoring_again_asks_for_what_is_unjudged(tmp_path: Path) -> None:
    vendor = Vendor(lambda _: {"choice": "A"}, faults=["broken", "refusal"])
    run = tmp_path / "run"

    said: list[str] = []

    def orchestrator(*words: str) -> dict[str, int]:
        judge = ["--judge", f"openai:x@{url}", "--judge-cache", str(tmp_path / "cache.sqlite")]
        command = [sys.executable, "-m", "orchestrator", *words, *judge]
        environment = {**os.environ, "LYNCEAN_JUDGE_KEY": "k3y"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
        counts = json.loads((run / "results.json").read_text())["tasks"]["vstar_bench"]["counts"]
        return {name: number for name, number in counts.items() if number}

    def asked() -> Counter[str]:
        return Counter(body["messages"][-1]["content"] for body in vendor.requests)

    with JudgeServer(vendor) as url:
        task = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "6"]
        words = [*task, "--model", "demo:constant:whichever fits", "--run", str(run)]
        assert orchestrator(*words) == {"planned": 6, "scored": 4, "unjudged": 2}
        assert "2 of them unjudged, the last because the judge" in said[0]
        assert f"orchestrator score {run} asks again" in said[0]
        first, results = asked(), (run / "results.json").read_bytes()
        assert set(first.values()) == {1}
        assert len(first) == 6
        assert orchestrator(*words) == {"planned": 6, "scored": 4, "unjudged": 2}
        assert asked() == first
        assert (run / "results.json").read_bytes() == results
        assert orchestrator("score", str(run)) == {"planned": 6, "scored": 6}
    assert "unjudged, the last" not in said[-1]
    again = asked() - first
    assert sorted(again.values()) == [1, 1]
    assert vendor.charged == 8


@pytest.mark.full
def test_scored_again_by_a_panel_a_run_says_what_one_that_began_with_it_says(tmp_path: Path) -> None:
    def orchestrator(*words: str, judges: list[str]) -> dict[str, dict[str, Any]]:
        run = Path(words[1] if words[0] == "score" else words[-1])
        named = [word for judge in judges for word in ("--judge", judge)]
        command = [sys.executable, "-m", "orchestrator", *words, *named, "--judge-cache", str(tmp_path / "c.sqlite")]
        environment = {**os.environ, "LYNCEAN_JUDGE_KEY": "k3y"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        found = json.loads((run / "results.json").read_text())["tasks"]["vstar_bench"]
        return {metric["name"]: metric for metric in found["metrics"] if not metric["labels"]} | {"": found["counts"]}

    # The second judge says A to some questions, and B to the others.
    with (
        JudgeServer(Vendor(lambda _: {"choice": "A"})) as one,
        JudgeServer(Vendor(lambda user: {"choice": "AB"[len(user) % 2]})) as other,
    ):
        panel = [f"openai:x@{one}", f"openai:y@{other}"]
        task = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "12"]
        words = [*task, "--model", "demo:constant:whichever fits", "--run"]
        alone, both = str(tmp_path / "alone"), str(tmp_path / "both")
        assert "judge agreement" not in orchestrator(*words, alone, judges=panel[:1])
        found = orchestrator(*words, both, judges=panel)
        agreement, counts = found["judge agreement"], found[""]
        assert counts["unjudged"] > 0
        assert agreement["denominator"] == counts["planned"] == 12
        assert agreement["details"]["unanimous"] == counts["scored"]
        assert agreement["value"] < 1
        orchestrator("score", alone, judges=panel)
        assert (tmp_path / "alone" / "results.json").read_bytes() == (tmp_path / "both" / "results.json").read_bytes()
        assert "judge agreement" not in orchestrator("score", both, judges=panel[:1])
