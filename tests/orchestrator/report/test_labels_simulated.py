"""The bench of labels in its small form: a simulated judge and a person who labels a sample."""

from __future__ import annotations

import json
import subprocess
import sys

from helpers.page_commands import ROOT


def test_judge_and_labels_together_are_right_and_narrower() -> None:
    bench = [sys.executable, str(ROOT / "bench" / "bench_labels.py"), "--worlds", "100", "--seed", "29"]
    found = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)
    worlds = {name: each for name, each in found.items() if isinstance(each, dict)}
    assert min(each["both covers"] for each in worlds.values()) >= 0.88, "94% or more in 4,000 worlds"
    good = [each for name, each in worlds.items() if "judge=0.9 " in name and "labels=100" in name]
    assert len([each for each in good if each["width to labels alone"] <= 0.7]) >= 5
    assert any(each["judge alone covers"] < 0.1 for each in good), "a judge's own interval is not about the truth"
    assert max(each["width to labels alone"] for each in worlds.values()) <= 1.05
