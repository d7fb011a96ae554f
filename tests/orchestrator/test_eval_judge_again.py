"""What a resumed run, and one that is scored again, asks of a judge whose replies were not usable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from judge_server import JudgeServer, Vendor


def test_a_resumed_run_asks_nothing_and_scoring_again_asks_for_what_is_unjudged(tmp_path: Path) -> None:
    vendor = Vendor(lambda _: {"choice": "A"}, faults=["broken", "refusal"])
    run = tmp_path / "run"

    said: list[str] = []

    def orchestrator(*words: str) -> dict[str, int]:
        judge = ["--judge", f"openai:x@{url}", "--judge-cache", str(tmp_path / "cache.sqlite")]
        command = [sys.executable, "-m", "orchestrator", *words, *judge]
        environment = {**os.environ, "LYNCEUS_JUDGE_KEY": "k3y"}
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
