"""The demo model in training: callback and watcher over its checkpoints, each killed twice, give the same curve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from helpers.python_path import python_path
from helpers.same_results import results_of

from orchestrator.compare.curve import curves
from orchestrator.suite import training

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(3600)]
pytest.importorskip("accelerate", reason="pip install 'lyncean[transformers]'")

ROOT = Path(__file__).parents[3]
SUITE = """\
tasks: {vstar_bench: {limit: 40}}
options: {synthetic: true}
checkpoints: {model_options: {device: cpu, deterministic: true}}
gate: {baseline: previous, conditions: [no_fall]}
"""
CHECKPOINTS, ITEMS = 20, 40


def answers(run: Path) -> list[str]:
    """The calls that a suite's runs have answers to, which of a killed run may end in half a line."""
    lines = [(path.parent.name, line) for path in run.glob("*/responses.jsonl") for line in path.open()]
    return [f"{name} {json.loads(line)['key']}" for name, line in lines if line.endswith("\n")]


def killed_twice(args: Sequence[str], folder: Path, run: Path) -> None:
    """Runs a command that is killed after some answers, and after more; the third time it ends by itself."""
    environment = {**os.environ, "PYTHONPATH": python_path(ROOT)}
    for enough in (ITEMS // 2, ITEMS * 8):
        process = subprocess.Popen([sys.executable, "-m", *args], cwd=folder, env=environment)
        while len(answers(run)) < enough:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
        process.kill()
        process.wait()
    done = subprocess.run([sys.executable, "-m", *args], cwd=folder, env=environment, check=False)
    assert done.returncode in (0, 4, 5), "the gate is about chance"


def test_callback_and_watcher_killed_twice_give_the_same_curve(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(SUITE)
    called, watched = tmp_path / "called", tmp_path / "watched"
    killed_twice(["demo_model.relearn", "work", "--suite", "demo.yaml", "--run", called.name], tmp_path, called)
    watcher = ["--suite", "demo.yaml", "--checkpoints", "work/checkpoint-*", "--until", "now", "--run", watched.name]
    killed_twice(["orchestrator", "eval", *watcher], tmp_path, watched)
    cells = [cell["name"] for cell in json.loads((called / "suite.json").read_text())["cells"]]
    assert len(cells) == CHECKPOINTS
    for run in (called, watched):
        assert len(answers(run)) == len(set(answers(run))) == CHECKPOINTS * ITEMS
    assert [results_of(called / cell) for cell in cells] == [results_of(watched / cell) for cell in cells]
    one, other = (curves([training.read(run)])[0].lines[0].known for run in (called, watched))
    assert [(point.step, point.metric) for point in one] == [(point.step, point.metric) for point in other]
    values = [point.metric.value or 0.0 for point in one if point.metric]
    assert fmean(values[-5:]) > fmean(values[:2]) + 20, "the curve rises"
