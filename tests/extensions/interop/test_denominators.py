"""Means of the items, wherever a user takes them, are the numbers of results.json."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import orjson
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer
from helpers.scorer_asking import spec, summarize

from orchestrator import load
from orchestrator.cli.export import command
from orchestrator.run.results import summary_json
from orchestrator.run_folder.lines import VerdictLine, decode
from orchestrator.run_folder.records import pass_through

OUTCOMES = [("scored", 1.0), ("scored", 1.0), ("scored", 0.0), ("unparsed", 0.0), ("refused", 0.0), ("rejected", None),
            ("unjudged", None), ("failed", None), ("scored", 0.5)]  # fmt: skip
Table = Callable[[Path], pd.DataFrame]


def run_of(path: Path) -> Path:
    """A run with every outcome, in unequal parts of its two topics; its metrics are the scorer's."""
    writer = Writer(path)
    for number in range(40):
        outcome, score = OUTCOMES[(number * number + number // 5) % len(OUTCOMES)]
        answered = score is not None and outcome != "refused"
        error = None if answered or outcome == "unjudged" else {"code": "", "reason": outcome, "message": outcome}
        topic = "ab"[number % 3 == 0]
        usage = {"input_tokens": 9, "output_tokens": 7, **({"reasoning_tokens": 5} if number % 2 else {})}
        response = {"parts": [{"text": "1"}], "finish_reason": "FINISH_REASON_END_OF_SEQUENCE", "usage": usage}
        writer.item(
            f"marvel/{number}", outcome=outcome, score=score, error=error, response=None if error else response,
            labels={"topic": topic}, verdict={"extracted": "", "targets": ["1"], "options": []},
        )  # fmt: skip
    writer.close()
    lines = [decode(line, VerdictLine) for line in (path / "verdicts.jsonl").read_bytes().splitlines()]
    summary = summary_json(summarize(map(pass_through, lines), spec("accuracy", "accuracy", ["topic"])))
    results = orjson.loads((path / "results.json").read_bytes())
    (path / "results.json").write_bytes(orjson.dumps({**results, "tasks": {"marvel": summary}}))
    return path


def exported(form: str) -> Callable[[Path], Path]:
    def write(run: Path) -> Path:
        output = run.parent / f"items.{form}"
        args = [str(run), "--format", form, "--output", str(output)]
        assert CliRunner().invoke(command, args).exit_code == 0
        return output

    return write


def of_csv(run: Path) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(exported("csv")(run).read_bytes())).rename(columns={"label_topic": "label.topic"})


def of_parquet(run: Path) -> pd.DataFrame:
    table = pq.read_table(exported("parquet")(run)).to_pandas()
    return table.rename(columns={"label_topic": "label.topic"})


def of_python(run: Path) -> pd.DataFrame:
    return load(run).to_pandas("items")


@pytest.mark.parametrize("table", [of_csv, of_parquet, of_python])
def test_the_mean_of_a_column_is_the_metric(tmp_path: Path, table: Table) -> None:
    results = load(run_of(tmp_path / "run"))
    items = table(tmp_path / "run")
    whole = results["accuracy"]
    assert items.score.mean() == pytest.approx(whole.value, rel=1e-12)
    assert items.score_answered.mean() == pytest.approx(whole.value_answered, rel=1e-12)
    assert whole.value != pytest.approx(whole.value_answered)
    by_topic = items.groupby("label.topic")
    for metric in results.metrics:
        if topic := metric.labels.get("topic"):
            assert by_topic.score.mean()[topic] == pytest.approx(metric.value, rel=1e-12)
            assert by_topic.score_answered.mean()[topic] == pytest.approx(metric.value_answered, rel=1e-12)


def test_the_rows_have_the_tokens_of_the_reasoning(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    for table in (of_csv(run), of_parquet(run)):
        known = table.reasoning_tokens.dropna()
        assert set(known) == {5}
        assert 0 < len(known) < len(table)


def test_other_tools_take_the_same_means(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    value = load(run)["accuracy"].value
    args = [str(run), "--format", "lmms-eval", "--output", str(tmp_path / "theirs")]
    _, samples = CliRunner().invoke(command, args).output.split()
    scores = [orjson.loads(line)["score"] for line in Path(samples).read_bytes().splitlines()]
    assert sum(scores) / len(scores) == pytest.approx(value)
    log = pytest.importorskip("inspect_ai.log")
    args = [str(run), "--format", "inspect", "--output", str(tmp_path / "logs")]
    eval_log = log.read_eval_log(CliRunner().invoke(command, args).output.strip())
    known = [sample.scores["marvel"].value for sample in eval_log.samples]
    assert sum(known) / len(known) == pytest.approx(value)


def test_items_of_a_run_that_goes_on_have_no_score_yet(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="1", score=1.0)
    writer.item("marvel/2", answer="1")
    writer.verdicts.pop()
    items = of_csv(writer.close(complete=False))
    assert items.score.tolist()[:1] == [1.0]
    assert items.score.isna().tolist() == [False, True]
