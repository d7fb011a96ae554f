"""The bench of labels in its small form: a simulated judge and a person who labels a sample."""

from __future__ import annotations

import json
import subprocess
import sys

from helpers.page_commands import ROOT


def test_judge_and_labels_together_are_right_and_narrower() -> None:
    bench = [sys.executable, str(ROOT / "bench" / "bench_labels.py"), "--worlds", "100", "--seed", "29"]
    results = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)
    worlds = {name: world for name, world in results.items() if isinstance(world, dict)}
    assert min(world["both covers"] for world in worlds.values()) >= 0.88, "94% or more in 4,000 worlds"
    good = [world for name, world in worlds.items() if "judge=0.9 " in name and "labels=100" in name]
    assert len([world for world in good if world["width to labels alone"] <= 0.7]) >= 5
    assert any(world["judge alone covers"] < 0.1 for world in good), "a judge's own interval is not about the truth"
    assert max(world["width to labels alone"] for world in worlds.values()) <= 1.05
