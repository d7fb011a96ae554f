"""Metrics of captions start Java in a cell, and are those that they are without one."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Iterator

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.library.values import encode
from lyncean_harnesses.scoring import cell, rule, task_metric
from scorer import foreign_tasks
from scorer.metrics import Params, Table, metrics
from scorer.metrics.summarizer import Summarizer

CAPTIONS = {
    "a man rides a brown horse on the beach": ["a man on a horse at the beach", "someone rides a horse"],
    "two dogs play in the grass": ["dogs playing on grass"],
    "ein Café in Köln with naïve people": ["people in a café", "a café, full of people"],
}
TASK = "lmms:coco2014_cap_val"
METRICS = ("coco_Bleu_4", "coco_METEOR", "coco_CIDEr")


@pytest.fixture
def allowed() -> Iterator[None]:
    before = foreign_tasks._started_with[0]
    foreign_tasks.allow(foreign_tasks.ForeignTasks(on=True))
    yield
    foreign_tasks.allow(before)
    cell._close()


def request(index: int, caption: str) -> pb.ScoreRequest:
    item = pb.ScoreRequest(key=f"{TASK}/{index}", rule="harness_task", text=caption)
    doc = {"question_id": f"COCO_val2014_{index:012d}.jpg", "id": index, "answer": CAPTIONS[caption]}
    item.params.update({"task": TASK, "doc": encode(doc), "index": index})
    return item


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    importlib.util.find_spec("lmms_eval") is None, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'"
)
@pytest.mark.skipif(not shutil.which("java"), reason="needs Java: apt-get install default-jre-headless")
def test_captions_have_the_metrics_that_they_have_without_a_cell(
    allowed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [request(index, caption) for index, caption in enumerate(CAPTIONS)]
    wanted = [pb.MetricSpec(name=name, metric="harness_task") for name in METRICS]
    for metric in wanted:
        metric.params.update({"task": TASK, "metric": metric.name})

    async def score() -> list[pb.Verdict]:
        return [await rule.read(item, None) for item in requests]

    def summary() -> list[pb.MetricResult]:
        summarizer = Summarizer(wanted, metrics())
        for item, verdict in zip(requests, verdicts, strict=True):
            summarizer.add(item, verdict)
        return list(summarizer.finish().metrics)

    verdicts = asyncio.run(score())
    assert {verdict.outcome for verdict in verdicts} == {"scored"}, verdicts
    inside = summary()
    assert "lmms_eval" not in sys.modules
    assert all(metric.value > 0 for metric in inside), inside

    def here(_: str, __: object, params: dict[str, object], table: Table, ___: object) -> cell.Round[pb.MetricResult]:
        return cell.Round(task_metric.measured_here(Params(params), table))

    monkeypatch.setattr(cell, "measured", here)
    assert summary() == inside
