"""A mistake that no answer can make good is found before the first call: nothing is asked, no folder is made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import toybench
from helpers.engine_cluster import Cluster, Server

from lyncean.rpc import PLAIN
from lyncean.scorer.v1.scorer_pb2 import MetricSpec, ScoreRequest, Summary
from orchestrator.data.rows import DataError, Row
from orchestrator.engine import Endpoint, ScorerClient
from orchestrator.errors import EngineError
from orchestrator.run import plan as run_plan
from orchestrator.run.preflight import check_scoring
from orchestrator.run.request import RunRequest
from orchestrator.samples import Sample, Variant

FILE = """data: animals.jsonl
id: id
question: question
options: [A, B, C]
answer: answer
"""


def toy_plan() -> run_plan.Plan:
    return run_plan.make(RunRequest(["toy"], synthetic=True, limit=4))


def rows(count: int, **last: str) -> list[dict[str, str]]:
    row = {"A": "cat", "B": "dog", "C": "hen", "answer": "B"}
    built = [{"id": f"q{number}", "question": f"row {number}: which barks?", **row} for number in range(1, count + 1)]
    built[-1] |= last
    return built


def write(folder: Path, table: list[dict[str, str]], more: str = "") -> tuple[str, ...]:
    (folder / "animals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in table))
    (folder / "animals.yaml").write_text(FILE + more)
    return ("--task", "animals.yaml", "--data", "animals.jsonl")


def refused(cluster: Cluster, scorer: Server, options: tuple[str, ...]) -> str:
    """Returns the error of an `eval` that asks nothing and leaves nothing."""
    output = cluster.eval("run", [cluster.servers[0]], scorer, *options, code=2)
    assert "Traceback" not in output
    assert output.startswith("Error: ")
    assert not cluster.calls()
    assert not (cluster.folder / "run").exists()
    return output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "metrics: [accuracy, nosuch]",
            "task animals: metric 'nosuch': there is no metric 'nosuch'; known: abstention, accuracy",
        ),
        ("metrics: [accuracy, accuracy]", "task animals: metric name 'accuracy' is empty or stands twice"),
        ("metrics: [{metric: accuracy, params: {level: 2}}]", "task animals: metric 'accuracy': parameter 'level'"),
        ("metrics: [{metric: accuracy, params: {day: 2024-01-01}}]", "line 6: metrics: Object of type date"),
        ("rule: nosuch", "task animals, rule 'nosuch': the scorer has no such rule; it has anls, box, caption, choice"),
        ("params: {nosuch: 1}", "task animals, rule 'choice': it has no parameter 'nosuch'; it has count, labels"),
        ("params: {count: many}", "task animals: item 'animals/q1', rule 'choice': choice: params.count must be"),
        ("rule: count", "target 'B' is no whole number"),
        ("rule: judge_answer", "task animals, rule 'judge_answer': it asks a judge, and the scorer has none"),
    ],
)
def test_what_the_scorer_cannot_do_is_found_first(
    cluster: Cluster, shared_scorer: Server, more: str, message: str
) -> None:
    cluster.model()
    options = write(cluster.folder, rows(3), more)
    assert message in refused(cluster, shared_scorer, options)
    write(cluster.folder, rows(3))
    cluster.eval("run", [cluster.servers[0]], shared_scorer, *options)
    assert cluster.counts("run", "animals")["scored"] == 3
    assert cluster.calls().total() == 3


def test_the_answers_of_all_rows_are_looked_at_first(cluster: Cluster, shared_scorer: Server) -> None:
    cluster.model()
    options = write(cluster.folder, rows(300, answer="E"))
    output = refused(cluster, shared_scorer, options)
    assert "animals.yaml, line 5: animals.jsonl, row 300: animals/q300: the answer 'E' is not the letter" in output


def test_a_row_without_a_column_is_named(cluster: Cluster, shared_scorer: Server) -> None:
    cluster.model()
    table = rows(3)
    del table[1]["answer"]
    output = refused(cluster, shared_scorer, write(cluster.folder, table))
    assert "animals.jsonl, row 2, has no column 'answer'" in output


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        ("nosuch", DataError, r"^synthetic, seed 0, row 3: it has no column 'nosuch'; it has id, number$"),
        ("", EngineError, r"^benchmark toy, synthetic, seed 0, row 3: ZeroDivisionError: division by zero$"),
    ],
)
def test_a_row_that_a_benchmark_cannot_use_is_named(column: str, error: type[Exception], message: str) -> None:
    def samples(row: Row, variant: Variant) -> Iterable[Sample]:
        if row["number"] == 2:
            assert row[column] if column else 1 / 0
        return toybench.BENCHMARK.samples(row, variant)

    plan = toy_plan()
    (task,) = plan.tasks
    benchmark = dataclasses.replace(task.benchmark, samples=samples)
    plan = dataclasses.replace(plan, tasks=(dataclasses.replace(task, benchmark=benchmark),))
    planned = plan.samples()
    assert [next(planned).key, next(planned).key] == ["toy/0", "toy/1"]
    with pytest.raises(error, match=message):
        next(planned)


async def test_metrics_are_tried_with_no_items(shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them take long: the caption metrics start Java twice, for one item as well."""
    client = ScorerClient(Endpoint("127.0.0.1", shared_scorer.port), PLAIN, patience=60.0)
    tried: list[object] = []
    summarize, try_out = client.summarize, client.try_out

    async def noted(items: Callable[[], Iterable[ScoreRequest]], metrics: Iterable[MetricSpec]) -> Summary:
        summary = await summarize(items, metrics)
        results = [metric.denominator for metric in summary.metrics]
        tried.append(([item.key for item in items()], [spec.metric for spec in metrics], results))
        return summary

    async def noted_items(items: Iterable[ScoreRequest]) -> None:
        tried.append([item.key for item in items])
        await try_out(items)

    monkeypatch.setattr(client, "summarize", noted)
    monkeypatch.setattr(client, "try_out", noted_items)
    try:
        await check_scoring(toy_plan(), client, await client.list_rules())
    finally:
        await client.close()
    assert tried == [([], ["accuracy", "group_all"], [0, 0]), ["toy/0"]]
