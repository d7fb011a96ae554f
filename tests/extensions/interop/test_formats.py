"""Tables, items and other tools' logs."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import orjson
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from helpers.report_runs import Writer, marvel_run

import lyncean_interop as interop
from orchestrator.cli.export import command
from orchestrator.cli.report import command as report


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return marvel_run(tmp_path / "run", puzzles=154)


def invoke(*args: str | Path) -> Result:
    """Runs `export`, or `report` without a format."""
    argv = [str(arg) for arg in args]
    return CliRunner().invoke(command if "--format" in argv else report, argv)


def test_html_is_the_default_and_names_what_it_wrote(run: Path) -> None:
    result = invoke(run)
    assert result.exit_code == 0
    assert result.output.strip() == str(run / "report.html")
    assert (run / "report.html").exists()


def test_html_elsewhere_says_where_its_images_are(run: Path, tmp_path: Path) -> None:
    result = invoke(run, "--output", tmp_path / "page.html")
    assert result.exit_code == 0
    assert "add --embed" in result.stderr
    assert invoke(run, "--output", tmp_path / "page.html", "--embed").stderr == ""


def test_markdown(run: Path, tmp_path: Path) -> None:
    other = marvel_run(tmp_path / "a|b", model="m<b>", skill=0.6, seed=2)
    lines = invoke(run, other, "--format", "md").output.splitlines()
    assert lines[0] == "| metric | run | a\\|b | n |"
    assert lines[2].startswith("| AVR | 44.2 [36.6, 52.0] | ")
    assert any(line.startswith("run (llava-tiny): 154 planned = ") for line in lines)
    assert any("(m&lt;b>)" in line for line in lines)


@pytest.mark.parametrize("form", ["md", "latex", "json", "csv", "parquet", "lmms-eval"])
def test_a_run_that_goes_on_says_so(run: Path, tmp_path: Path, form: str) -> None:
    (run / "results.json").unlink()
    output = tmp_path / "out"
    result = invoke(run, "--format", form, "--output", output)
    assert result.exit_code == 0
    assert result.stderr == f"{run.name} is not complete: no metrics yet\n"
    if form in ("md", "latex"):
        assert f"{run.name} (llava-tiny): not complete, no results yet" in output.read_text()
        assert "0 planned" not in output.read_text()


def test_latex_escapes(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "50%_of {it}")
    writer.item("a_b/1", answer="1", score=1.0)
    text = invoke(writer.close(), "--format", "latex").output
    assert "50\\%\\_of \\{it\\}" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    assert "100.0 {\\scriptsize [20.7, 100.0]}" in text


def test_csv_has_every_planned_item(run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(invoke(run, "--format", "csv").output)))
    assert len(rows) == 154
    first = rows[0]
    assert (first["key"], first["outcome"], first["label_pattern"]) == ("marvel/1:avr", "scored", "Temporal Movement")
    assert {row["outcome"] for row in rows} == {"scored", "unparsed", "refused", "rejected", "failed"}
    rejected = next(row for row in rows if row["outcome"] == "rejected")
    assert (rejected["score"], rejected["score_answered"]) == ("0.0", "")


@pytest.mark.parametrize("answer", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "fine"])
def test_csv_holds_no_formula(tmp_path: Path, answer: str) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer=answer, score=1.0)
    (row,) = csv.DictReader(io.StringIO(invoke(writer.close(), "--format", "csv").output))
    assert (row["answer"], row["score"]) == (answer if answer == "fine" else f"'{answer}", "1.0")


def test_parquet_has_the_same_items(run: Path, tmp_path: Path) -> None:
    assert invoke(run, "--format", "parquet", "--output", tmp_path / "items.parquet").exit_code == 0
    table = pq.read_table(tmp_path / "items.parquet")
    rows = list(csv.DictReader(io.StringIO(invoke(run, "--format", "csv").output)))
    assert table.column("key").to_pylist() == [row["key"] for row in rows]
    assert [table.column(name).null_count for name in ("score", "score_answered")] == [0, 10]


def test_json_is_what_the_runs_hold(run: Path) -> None:
    (exported,) = orjson.loads(invoke(run, "--format", "json").output)
    assert exported["results"] == orjson.loads((run / "results.json").read_bytes())
    assert exported["manifest"] == orjson.loads((run / "manifest.json").read_bytes())


def test_lmms_eval_layout(run: Path, tmp_path: Path) -> None:
    result = invoke(run, "--format", "lmms-eval", "--output", tmp_path / "out")
    results, samples = (Path(line) for line in result.output.split())
    assert results == tmp_path / "out" / "llava-tiny" / "20260131_085958_results.json"
    assert samples.name == "20260131_085958_samples_marvel.jsonl"
    exported = orjson.loads(results.read_bytes())
    assert exported["results"]["marvel"]["AVR,none"] == pytest.approx(68 / 154)
    assert exported["n-samples"]["marvel"] == {"original": 154, "effective": 154}
    lines = [orjson.loads(line) for line in samples.read_bytes().splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(154))
    assert lines[0]["filtered_resps"] == ["4"]
    assert lines[0]["target"] == "2"


def test_inspect_log_reads_back(run: Path, tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    result = invoke(run, "--format", "inspect", "--output", tmp_path / "logs", "--embed")
    (path,) = result.output.split()
    eval_log = log.read_eval_log(path)
    assert (eval_log.status, eval_log.eval.task, eval_log.eval.model) == ("success", "marvel", "lyncean/llava-tiny")
    assert len(eval_log.samples) == 154
    metrics = eval_log.results.scores[0].metrics
    assert metrics["AVR"].value == pytest.approx(68 / 154)
    assert (metrics["AVR"].group, metrics["AVR"].metadata["denominator"]) == (None, 154)
    slice_ = metrics["AVR [pattern=Mathematical]"]
    assert (slice_.group, slice_.name) == ("AVR", "pattern=Mathematical")
    first = next(sample for sample in eval_log.samples if sample.id == "marvel/1:avr")
    assert (first.target, first.choices) == (["2"], ["1", "2", "3", "4"])
    assert (first.scores["marvel"].answer, first.scores["marvel"].value) == ("4", "I")
    assert {sample.scores["marvel"].value for sample in eval_log.samples if sample.scores} == {"C", "I"}
    assert first.output.completion == "4"
    (reference,) = first.attachments
    assert [turn.content[0].image for turn in (first.input[0], first.messages[0])] == [f"attachment://{reference}"] * 2
    whole = log.read_eval_log(path, resolve_attachments="full")
    seen = next(sample for sample in whole.samples if sample.id == "marvel/1:avr").messages[0].content[0].image
    assert seen == first.attachments[reference]
    assert seen.startswith("data:image/png;base64,")
    rejected = next(sample for sample in eval_log.samples if sample.error)
    assert "context_overflow" in rejected.error.message
    assert rejected.scores["marvel"].value == "I"
    listed = log.list_eval_logs(str(tmp_path / "logs"))
    assert len(listed) == 1, "inspect view lists it"


def test_inspect_has_one_unit_and_keeps_partial_credit(tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="1", score=0.5)
    percent = {"name": "score", "metric": "mean", "value": 90.0, "value_answered": 95.0, "unit": "percent",
               "interval": {"low": 80.0, "high": 99.0, "level": 0.95}, "denominator": "1"}  # fmt: skip
    closed = writer.close({"marvel": [percent]})
    (path,) = invoke(closed, "--format", "inspect", "--output", tmp_path / "logs").output.split()
    eval_log = log.read_eval_log(path)
    metric = eval_log.results.scores[0].metrics["score"]
    assert (metric.value, metric.metadata["low"], metric.metadata["value_answered"]) == (0.9, 0.8, 0.95)
    assert eval_log.samples[0].scores["marvel"].value == 0.5


def test_inspect_has_the_reasoning_apart(tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    writer = Writer(tmp_path / "run")
    usage = {"input_tokens": 9, "output_tokens": 7, "reasoning_tokens": 5, "cached_tokens": 4}
    finish = "FINISH_REASON_END_OF_SEQUENCE"
    response = {"parts": [{"text": "3"}], "reasoning": "It is 2.", "finish_reason": finish, "usage": usage}
    writer.item("marvel/1", score=1.0, response=response)
    (path,) = invoke(writer.close(), "--format", "inspect", "--output", tmp_path / "logs").output.split()
    (sample,) = log.read_eval_log(path).samples
    assert [part.type for part in sample.messages[-1].content] == ["reasoning", "text"]
    assert sample.messages[-1].content[0].reasoning == "It is 2."
    assert sample.output.completion == "3"
    assert (sample.output.usage.reasoning_tokens, sample.output.usage.input_tokens_cache_read) == (5, 4)


def test_repeats_are_epochs_and_other_hashes_are_names(tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    writer = Writer(tmp_path / "run")
    for key in ("marvel/a#b", "marvel/1:avr", "marvel/1:avr#2", "marvel/x#1:apply", "marvel/9#99999999999"):
        writer.item(key, answer="1", score=1.0)
    (path,) = invoke(writer.close(), "--format", "inspect", "--output", tmp_path / "logs").output.split()
    assert sorted((sample.id, sample.epoch) for sample in log.read_eval_log(path).samples) == [
        ("marvel/1:avr", 1), ("marvel/1:avr", 3), ("marvel/9#99999999999", 1), ("marvel/a#b", 1),
        ("marvel/x:apply", 2),
    ]  # fmt: skip


def test_inspect_missing_is_one_line(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    monkeypatch.delitem(sys.modules, "lyncean_interop.inspect", raising=False)
    monkeypatch.delattr(interop, "inspect", raising=False)
    result = invoke(run, "--format", "inspect", "--output", tmp_path / "logs")
    assert result.exit_code == 2
    assert "lyncean[inspect]" in result.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--format", "parquet"), "needs --output"),
        (("--format", "inspect"), "needs --output"),
        (("--format", "csv", "--output", "{tmp}/none/items.csv"), "cannot be written"),
    ],
)
def test_mistakes_are_one_line(run: Path, tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    result = invoke(run, *(arg.format(tmp=tmp_path) for arg in args))
    assert result.exit_code == 2
    assert message in result.output


def test_no_run_there(tmp_path: Path) -> None:
    marvel_run(tmp_path / "inner", puzzles=2)
    result = invoke(tmp_path)
    assert result.exit_code == 2
    assert "did you mean one of inner" in result.output


def test_mlflow_has_the_metrics(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'lyncean[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the export leaves it set
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    assert invoke(run).exit_code == 0
    result = invoke(run, "--format", "mlflow")
    assert result.exit_code == 0, result.output
    tracked = mlflow.get_run(result.output.split()[-1])
    assert tracked.data.metrics["marvel/AVR"] == pytest.approx(68 / 154)
    assert tracked.data.metrics["items/planned"] == 154
    assert tracked.data.params["model_name"] == "llava-tiny"


def test_wandb_takes_a_run_offline(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="pip install 'lyncean[wandb]'")
    wandb.teardown()  # it keeps the folder of its first use in a process
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    result = invoke(run, "--format", "wandb")
    assert result.exit_code == 0, result.output
    wandb.teardown()  # as the end of a process: writes what is left
    (written,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"marvel/AVR" in written.read_bytes()


@pytest.mark.parametrize(("name", "begins"), [("wandb", "init"), ("mlflow", "start_run")])
def test_a_tracker_that_does_not_take_a_run_is_one_line(
    run: Path, name: str, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("Supported schemes are:\n['', 'file'] \x1b[31m")

    package = SimpleNamespace(**{begins: refuse}, get_tracking_uri=lambda: "sqlite:///mlflow.db")
    monkeypatch.setitem(sys.modules, name, package)  # type: ignore[arg-type]
    result = invoke(run, "--format", name)
    assert result.exit_code == 2, result.output
    (line,) = result.output.splitlines()
    assert "did not take the run: RuntimeError: Supported schemes are: ['', 'file']" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_missing_is_one_line(run: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    result = invoke(run, "--format", name)
    assert result.exit_code == 2
    assert f"lyncean[{name}]" in result.output


def test_facts_of_items_are_columns_where_there_are_some(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["zoom"])
    writer.item("zoom/1", answer="1", score=1.0, verdict={"facts": {"calls": 3, "iou": 0.25}})
    writer.item("zoom/2", answer="1", score=1.0)
    first, second = csv.DictReader(io.StringIO(invoke(writer.close(), "--format", "csv").output))
    assert (first["fact_calls"], first["fact_iou"]) == ("3", "0.25")
    assert (second["fact_calls"], second["fact_iou"]) == ("", "")
