"""Tasks of lm-evaluation-harness through this engine: every metric is that of its own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from helpers import harness_runs

from orchestrator.benchmarks.registry import find

ROOT = Path(__file__).parents[3]
COLUMNS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "fixtures" / "harness_lm_eval.json").read_text())
ABSENT = importlib.util.find_spec("lm_eval") is None


@pytest.mark.skipif(not ABSENT, reason="lm-evaluation-harness is installed")
def test_without_lm_eval_one_line_says_how_to_install_it() -> None:
    with pytest.raises(
        Exception, match=r"lm-evaluation-harness, which is not installed: pip install 'lyncean\[lm-eval\]'"
    ):
        find(["lm-eval:hellaswag"])


@pytest.mark.skipif(ABSENT, reason="lm-evaluation-harness is not installed: pip install 'lyncean[lm-eval]'")
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", ["generate", "likelihood"])
def test_every_metric_is_that_of_lm_eval_to_the_bit(method: str, address: str, scorer: str, tmp_path: Path) -> None:
    from helpers import harness_theirs_lm

    columns = {name: known for name, known in COLUMNS.items() if harness_runs.METHODS[known["kind"]] == method}
    data = harness_runs.stored("lm-eval", columns, tmp_path / "data")
    tasks = [f"lm-eval:{name}" for name in columns]
    options: dict[str, Any] = {"method": method, "data": data["paths"], "endpoint": address, "scorer": scorer}
    ours = harness_runs.run_every_way(tasks, options, tmp_path)
    reference = harness_theirs_lm.figures(data["splits"], address)
    assert harness_runs.compare(ours, reference, "lm-eval") >= len(tasks)
