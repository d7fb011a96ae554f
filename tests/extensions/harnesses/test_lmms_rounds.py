"""Visual CoT and multi-round tasks of lmms-eval: every metric is that of its own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import datasets
import pytest
from helpers import harness_rows, harness_runs

from lyncean_harnesses.library import HarnessError
from orchestrator import evaluate

ABSENT = importlib.util.find_spec("lmms_eval") is None
pytestmark = [
    pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'"),
    pytest.mark.weekly,
    pytest.mark.timeout(2700),
]

DRAWN: dict[str, dict[str, str]] = {
    "unig2u_chartqa100_visual_cot": {"image": "image", "question": "text", "answer": "yes", "type": "kind"},
    "unig2u_realunify_attentional_focusing_visual_cot": {
        **{"image": "image", "prompt": "text", "question": "text", "evaluation_prompt": "text", "answer": "letter"}
    },
    "unig2u_mmsi_msr_visual_cot": {"images": "images", "question": "text", "answer": "letter", "id": "integer"},
}
"""Task -> what is in a column."""

CONSTANT = {
    "unig2u_realunify_attentional_focusing_visual_cot": ("task_type", "attentional_focusing"),
    "unig2u_mmsi_msr_visual_cot": ("question_type", "MSR"),
}
"""Task -> the column, and its value in every row, that names the metric which the configuration aggregates."""

ROWS = 32
METRICS = {
    ("unig2u_chartqa100_visual_cot", "relaxed_overall"),
    ("unig2u_chartqa100_visual_cot", "relaxed_augmented_split"),
    ("unig2u_realunify_attentional_focusing_visual_cot", "attentional_focusing"),
    ("unig2u_mmsi_msr_visual_cot", "MSR"),
    ("ovo_forward", "forward_acc"),
}
"""The metrics that have a value; the rows are such that none is 0."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import os

    from lyncean_harnesses.library.lmms_eval import LIBRARY

    folder = tmp_path_factory.mktemp("rows")
    _ = LIBRARY.modules  # sets HF_HOME, under which videos are looked for
    tables = {}
    for name, columns in DRAWN.items():
        split = LIBRARY.config(name)["test_split"]
        rows = harness_rows.make(columns, rows=ROWS, seed=3)
        if name in CONSTANT:
            rows = rows.add_column(CONSTANT[name][0], [CONSTANT[name][1]] * ROWS)
        tables[name] = datasets.DatasetDict({split: rows})
    tables["ovo_forward"] = datasets.DatasetDict({"test": harness_rows.forward(Path(os.environ["HF_HOME"]))})
    for name, splits in tables.items():
        splits.save_to_disk(folder / name)
    return {"splits": tables, "paths": {f"lmms:{name}": str(folder / name) for name in tables}}


def test_drawings_and_rounds_give_the_metrics_of_lmms_eval(
    data: dict[str, Any], address: str, scorer: str, tmp_path: Path
) -> None:
    from helpers import harness_theirs

    tasks = list(data["paths"])
    options = {"data": data["paths"], "method": "generate", "endpoint": address, "scorer": scorer}
    ours = harness_runs.run_every_way(tasks, options, tmp_path)
    reference = harness_theirs.figures(data["splits"], address, str(tmp_path), simple=True)
    assert harness_runs.compare(ours, reference, "lmms") == len(METRICS)
    values = {key: metric.value for key, metric in harness_runs.overall(ours).items()}
    assert all(values["lmms:" + task, name] for task, name in METRICS), values
    assert ours.counts["lmms:ovo_forward"]["planned"] == 18  # one item for each round of nine questions
    assert all(ours.counts[f"lmms:{name}"]["planned"] == ROWS for name in DRAWN)
    blind = evaluate(tasks, **options, blind=True, run=tmp_path / "blind")
    assert blind.metrics != ours.metrics


def test_a_context_that_names_no_drawing_is_told_in_one_line(tmp_path: Path, address: str, scorer: str) -> None:
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ndataset_path: nobody/mine\ntest_split: test\noutput_type: generate_visual_cot\n"
        'doc_to_text: "{{question}}"\ndoc_to_target: answer\nmetric_list:\n  - metric: exact_match\n'
    )
    (tmp_path / "mine.jsonl").write_text('{"question": "What?", "answer": "7"}\n')
    with pytest.raises(HarnessError, match="its context does not say what is to be drawn"):
        evaluate(
            "lmms:mine",
            include_path=[str(tmp_path)],
            data=tmp_path / "mine.jsonl",
            **{"endpoint": address, "scorer": scorer},
            run=tmp_path / "run",
        )
