"""The bench of confidence sequences in its small form: benchmarks whose figure over all items is known."""

from __future__ import annotations

import json
import subprocess
import sys

from helpers.page_commands import ROOT


def test_the_truth_is_held_at_every_look_and_fewer_samples_do() -> None:
    bench = [sys.executable, str(ROOT / "bench" / "bench_sequential.py"), "--pairs", "60", "--items", "400"]
    measured = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)
    worlds = {name: world for name, world in measured.items() if isinstance(world, dict)}
    first = next(iter(worlds.values()))
    assert first["covers at every look"] >= 0.88, "96% of 2,000 orders"
    assert first["stops at"] < 0.8
    # Of six orders each: all of them together.
    assert sum(world["covers at every look"] for world in worlds.values()) / len(worlds) >= 0.85
    assert all(world["stops at"] < world.get("stops at, bets of the source", 2.0) for world in worlds.values())
