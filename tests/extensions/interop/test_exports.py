"""Exports for publication and for other tools' pages, read back by the formats' own readers."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
import yaml
from click.testing import CliRunner, Result
from helpers.report_runs import Writer, marvel_run, tally
from huggingface_hub import parse_eval_result_entries
from jsonschema import Draft7Validator

from orchestrator.cli.export import command
from orchestrator.extensions import EXPORTS

# The validator's package needs a newer Python; tests/fixtures/every_eval_ever.json names where its schemas are from.
SCHEMAS = orjson.loads((Path(__file__).parents[2] / "fixtures/every_eval_ever.json").read_bytes())
DATA = {"marvel": {"origin": "owner/marvel@0123abc", "sha256": "9f" * 32}}


def export(*args: str | Path) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args])


def finished(path: Path, **identity: Any) -> Path:
    """A run in which every item has a verdict: two right, one wrong, one half right in two rounds."""
    writer = Writer(path, **{"data": DATA, **identity})
    picture = writer.image(b"\x89PNG\r\n\x1a\n not looked at")
    parts = [picture, {"text": "Which? \x1b[31m\x00 <&]]>"}]
    writer.item("marvel/1", parts=parts, answer="1 \x1b\ufffe", score=1.0, verdict={"extracted": "1"})
    writer.item("marvel/2", parts=parts, answer="2", score=0.0, verdict={"extracted": "2", "reason": "bare"})
    rounds = [
        {"role": "ROLE_USER", "parts": [{"text": "First?"}]},
        {"role": "ROLE_ASSISTANT", "parts": [{"text": "a"}]},
        {"role": "ROLE_USER", "parts": [picture, {"text": "Then?"}]},
    ]
    writer.item("marvel/3", messages=rounds, answer="b", score=0.5, verdict={"extracted": "b"})
    scores = {"scores": [{"logprob": -1.5, "token_count": 1}, {"logprob": -0.25, "token_count": 1}]}
    writer.item("marvel/4", response=scores, continuations=["1", "2"], score=1.0, verdict={"extracted": "1"})
    metric = {
        "name": "AVR", "metric": "accuracy", "labels": {}, "value": 62.5, "value_answered": 62.5, "unit": "percent",
        "interval": {"low": 20.0, "high": 90.0, "level": 0.95, "method": "wilson"}, "denominator": "4",
        "denominator_answered": "4", "counts": tally(writer.verdicts), "details": {},
    }  # fmt: skip
    slices = [{**metric, "labels": {"pattern": pattern}} for pattern in ("a", "b")]
    return writer.close({"marvel": [metric, *slices]})


def test_every_eval_ever_is_valid_and_links_its_files(tmp_path: Path) -> None:
    exported = export(finished(tmp_path / "run"), "--format", "every-eval-ever", "--output", tmp_path / "out",
                  "--about", "model=owner/m", "--about", "relationship=third_party")  # fmt: skip
    assert exported.exit_code == 0, exported.output
    many = export(marvel_run(tmp_path / "many"), "--format", "every-eval-ever", "--output", tmp_path / "out",
                  "--about", "model=owner/n")  # fmt: skip
    assert many.exit_code == 0, many.output
    aggregate, samples = map(Path, exported.output.split())
    report = orjson.loads(aggregate.read_bytes())
    lines = [orjson.loads(line) for line in samples.read_bytes().splitlines()]
    assert report["detailed_evaluation_results"] == {
        "format": "jsonl", "file_path": str(samples.relative_to(tmp_path / "out")), "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(samples.read_bytes()).hexdigest(), "total_rows": 4,
    }  # fmt: skip
    first, *more = report["evaluation_results"]
    assert first["score_details"]["score"] == 0.625
    assert first["score_details"]["uncertainty"]["confidence_interval"]["upper"] == 0.9
    assert first["metric_config"]["metric_unit"] == "proportion"
    assert first["source_data"]["hf_repo"] == "owner/marvel"
    assert {line["evaluation_result_id"] for line in lines} == {first["evaluation_result_id"]}
    assert len({result["evaluation_result_id"] for result in (first, *more)}) == 3
    assert [line["evaluation"]["score"] for line in lines] == [1.0, 0.0, 0.5, 1.0]
    assert [line["interaction_type"] for line in lines] == ["single_turn", "single_turn", "multi_turn", "single_turn"]
    assert lines[3]["output"]["raw"] == ["-1.5\t1\n-0.25\t2"]
    for path in (tmp_path / "out").rglob("*.json*"):
        schema = Draft7Validator(SCHEMAS["instance" if path.suffix == ".jsonl" else "aggregate"])
        for line in path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]:
            assert not [error.message for error in schema.iter_errors(orjson.loads(line))], path
    pytest.importorskip("every_eval_ever", reason="pip install every_eval_ever, which needs Python 3.12")
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.json*"))
    check = [sys.executable, "-m", "every_eval_ever.validator.validate", "--format", "json", *files]
    done = subprocess.run(check, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert len(files) == 4
    assert done.returncode == 0, done.stdout + done.stderr


def test_eval_results_are_read_by_the_hub_s_own_library(tmp_path: Path) -> None:
    output = tmp_path / "results.yaml"
    done = export(finished(tmp_path / "run"), "--format", "eval-results", "--output", output)
    assert done.exit_code == 0, done.output
    (entry,) = parse_eval_result_entries(yaml.safe_load(output.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == ("owner/marvel", "marvel", "0123abc")
    assert (entry.value, entry.date) == (62.5, "2026-01-31T08:59:58Z")
    assert entry.notes == "AVR of all 4 items in %, 95% CI [20.0, 90.0], Lyncean 0.1.0"


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ({"data": {"marvel": {"origin": "synthetic, seed 0"}}}, "synthetic data (synthetic, seed 0)"),
        ({"blind": True}, "blind: images replaced"),
        ({"limit": 4}, "limited to 4 rows"),
        ({"data": {"marvel": {"origin": "rows.parquet"}}}, "add --about dataset=OWNER/NAME"),
        (None, "not complete"),
        ({"skill": 0.3}, "3 items failed"),
    ],
)
def test_what_is_no_result_of_the_benchmark_is_not_published(
    tmp_path: Path, identity: dict[str, Any] | None, message: str
) -> None:
    output = tmp_path / "results.yaml"
    output.write_text("older")
    if identity and "skill" in identity:
        run = marvel_run(tmp_path / "run")
    else:
        run = finished(tmp_path / "run", **(identity or {}))
    if identity is None:
        (run / "results.json").unlink()
    done = export(run, "--format", "eval-results", "--output", output)
    assert done.exit_code == 2
    assert message in done.output
    assert (output.read_text(), sorted(tmp_path.iterdir())) == ("older", [output, run])


def test_junit_has_a_test_case_for_each_item(tmp_path: Path) -> None:
    run, other = finished(tmp_path / "run"), marvel_run(tmp_path / "other", puzzles=154)
    suites = ElementTree.fromstring(export(run, other, "--format", "junit").output)  # noqa: S314
    one, many = suites.findall("testsuite")
    assert (one.get("name"), one.get("tests"), one.get("failures"), one.get("errors")) == ("run.marvel", "4", "2", "0")
    cases = {case.get("name"): case for case in one.findall("testcase")}
    assert [failure.get("message") for failure in one.iter("failure")] == [
        "score 0: answered '2', expected 1", "score 0.5: answered 'b', expected 1",
    ]  # fmt: skip
    assert cases["marvel/1"].find("failure") is None
    assert len(many.findall("testcase")) == 154
    assert int(many.get("errors", "")) == len(list(many.iter("error"))) == 10
    assert {error.get("type") for error in many.iter("error")} == {"failed", "refused", "rejected"}


def test_a_model_card_says_what_a_value_is_worth(tmp_path: Path) -> None:
    run = finished(tmp_path / "a|b", blind=True, limit=4)
    lines = export(run, "--format", "model-card").output.splitlines()
    assert lines[2] == (
        "| marvel | llava-tiny | AVR | 62.5 % | [20.0, 90.0] | 4 | blind: images replaced; limited to 4 rows |"
    )
    assert lines[-1].startswith("llava-tiny (4b825dc6), Lyncean 0.1.0: `orchestrator eval")


def test_spans_are_sent_by_the_protocol_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason="pip install 'lyncean[otel]'")
    run = finished(tmp_path / "run")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    other = export(run, "--format", "opentelemetry")
    assert other.exit_code == 2
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'" in other.output
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'lyncean[otel]'")
    from helpers.otlp_collector import collecting_http

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    with collecting_http() as (collector, port):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        done = export(run, "--format", "opentelemetry")
    assert done.exit_code == 0, done.output
    assert len(collector.spans) == 5
    assert {span.trace_id.hex() for span in collector.spans} == {done.output.strip()}


def test_spans_with_verdicts_reach_a_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    from helpers.otlp_collector import collecting

    run = marvel_run(tmp_path / "run", puzzles=154)
    with collecting() as (collector, port):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        done = export(run, "--format", "opentelemetry")
    assert done.exit_code == 0, done.output
    spans = {span.name: span for span in collector.spans}
    calls = [span for span in collector.spans if span.name == "chat llava-tiny"]
    assert (len(calls), len(collector.spans)) == (154, 155)
    assert {span.trace_id.hex() for span in collector.spans} == {done.output.strip()}
    assert {span.parent_span_id for span in calls} == {spans["evaluation run"].span_id}
    events = [event for span in calls for event in span.events]
    assert {event.name for event in events} == {"gen_ai.evaluation.result"}
    scores = [
        pair.value.double_value
        for event in events
        for pair in event.attributes
        if pair.key == "gen_ai.evaluation.score.value"
    ]
    assert sum(scores) == 68
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    away = export(run, "--format", "opentelemetry")
    assert away.exit_code == 2
    assert "the spans could not be sent" in away.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("every-eval-ever", "--output", "out"), "has no owner: add --about model=OWNER/NAME"),
        (("every-eval-ever", "--output", "out", "--about", "relationship=mine"), "give one of first_party"),
        (("eval-results", "--about", "colour=red"), "give NAME=VALUE with one of dataset, task, source"),
        (("csv", "--about", "dataset=a/b"), "--about has no meaning for --format csv"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = export(finished(tmp_path / "run"), "--format", *args)
    assert done.exit_code == 2
    assert message in done.output


def test_the_help_lists_every_format() -> None:
    shown = export("--help").output
    assert all(f"  {name} " in shown for name in EXPORTS.ours())
