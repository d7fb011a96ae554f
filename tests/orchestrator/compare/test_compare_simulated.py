"""The bench of gates in its small form: simulated pairs of runs whose true change is known."""

from __future__ import annotations

import json
import subprocess
import sys

from helpers.page_commands import ROOT


def test_what_gates_and_detectable_differences_show() -> None:
    bench = [sys.executable, str(ROOT / "bench" / "bench_gates.py"), "--worlds", "100", "--seed", "29"]
    results = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)
    for size in ("191 items", "7 tasks of 191", "7 tasks of 191, groups of 5", "2,900 items"):
        same, worse = results[f"{size}, change +0"], results[f"{size}, change -5"]
        assert same["gate_FAIL"] <= 0.09, "false alarms"
        assert worse["gate_pass"] <= 0.02, "a fall of 5 points passes as less than 2"
        assert min(same["interval_covers"], worse["interval_covers"]) >= 0.89
    assert results["2,900 items, change +0"]["gate_pass"] >= 0.7
    assert results["191 items, change +0"]["gate_not shown"] >= 0.8
    seven = results["7 tasks of 191, change -5"]
    assert seven["pooled_test_sees_a_fall"] >= 0.97 > 0.9 > seven["single_task_tests_see_a_fall"]
    for flips, least in (("10%", 0.65), ("20%", 0.45)):
        same, one = (results[f"61 tasks of 100, {flips} change, one falls by {fall} points"] for fall in (0, 20))
        assert same["any_task_named"] <= 0.09, "false alarms"
        assert one["found"] >= max(least, one["found_by_holm"] + 0.1)
        assert min(same["bounds_hold_for_all_tasks"], one["bounds_hold_for_all_tasks"]) >= 0.95
    for entry in (results["independent runs of 100 items at 95%"], results["independent runs of 500 items at 60%"]):
        assert entry["fall_seen"] >= 0.7
    assert results["independent runs of 100 items at 95%"]["fall_of_the_rise_seen"] <= 0.4
    assert all(pairing["seen"] >= 0.65 for pairing in results["paired"])
