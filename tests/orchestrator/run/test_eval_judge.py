"""`orchestrator eval --judge`: re-reading end to end, no secret in the run; what resuming and scoring again ask."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers import commands
from helpers.judge_server import JudgeServer, Vendor
from helpers.page_commands import ROOT, commands as typed
from helpers.same_results import results_of

from orchestrator.cli import main

SECRETS = ("k3y-of-the-judge", "passw0rd")


def orchestrator(*arguments: str, code: int = 0) -> str:
    """Runs a command with the judge's key; returns its output."""
    return commands.orchestrator(*arguments, environment={"LYNCEAN_JUDGE_KEY": SECRETS[0]}, code=code)


def evaluate(tmp_path: Path, model: str, *more: str, code: int = 0) -> str:
    options = ["--task", "marvel", "--set", "questions=avr", "--synthetic", "--limit", "6", "--model", model]
    return orchestrator("eval", *options, "--run", str(tmp_path / "run"), *more, code=code)


@pytest.mark.parametrize(("answer", "judged"), [("whichever fits", True), ("2", False)])
def test_what_a_rule_cannot_read_the_judge_reads(tmp_path: Path, answer: str, judged: bool) -> None:
    vendor = Vendor(lambda _: {"choice": "2"})
    with JudgeServer(vendor) as url:
        other = url.replace("127.0.0.1", f"user:{SECRETS[1]}@127.0.0.1")
        judges = ["--judge", f"openai:x@{url}", "--judge", f"openai:y@{other}"]
        output = evaluate(tmp_path, f"demo:constant:{answer}", *judges, "--judge-cache", str(tmp_path / "cache.sqlite"))
    verdicts = [json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()]
    assert len(verdicts) == 6
    assert {verdict["extracted"] for verdict in verdicts} == {"2"}
    assert all((verdict.get("reason") == "judge_reread") == judged for verdict in verdicts)
    assert all(len(verdict.get("panel", ())) == (2 if judged else 0) for verdict in verdicts)
    assert ("never needed" in output) == (not judged)
    assert bool(vendor.charged) == judged
    everything = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    for secret in SECRETS:
        assert secret.encode() not in everything
        assert secret not in output
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert len(manifest["judges"]) == 2
    metrics = json.loads((tmp_path / "run" / "results.json").read_text())["tasks"]["marvel"]["metrics"]
    assert any(metric["metric"] == "judge_agreement" for metric in metrics)


def test_a_judge_for_a_scorer_of_ones_own_is_refused(tmp_path: Path) -> None:
    output = evaluate(tmp_path, "demo", "--scorer", "127.0.0.1:1", "--judge", "openai:x", code=2)
    assert "scorer serve" in output
    assert "Traceback" not in output


def test_a_resumed_run_asks_nothing_and_scoring_again_asks_for_what_is_unjudged(tmp_path: Path) -> None:
    vendor = Vendor(lambda _: {"choice": "A"}, faults=["broken", "refusal"])
    run = tmp_path / "run"

    outputs: list[str] = []

    def counted(*arguments: str) -> dict[str, int]:
        judge = ["--judge", f"openai:x@{url}", "--judge-cache", str(tmp_path / "cache.sqlite")]
        outputs.append(orchestrator(*arguments, *judge))
        counts = json.loads((run / "results.json").read_text())["tasks"]["vstar_bench"]["counts"]
        return {name: number for name, number in counts.items() if number}

    def prompts() -> Counter[str]:
        return Counter(body["messages"][-1]["content"] for body in vendor.requests)

    with JudgeServer(vendor) as url:
        task = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "6"]
        arguments = [*task, "--model", "demo:constant:whichever fits", "--run", str(run)]
        assert counted(*arguments) == {"planned": 6, "scored": 4, "unjudged": 2}
        assert "2 of them unjudged, the last because the judge" in outputs[0]
        assert f"orchestrator score {run} asks again" in outputs[0]
        first, results = prompts(), (run / "results.json").read_bytes()
        assert set(first.values()) == {1}
        assert len(first) == 6
        assert counted(*arguments) == {"planned": 6, "scored": 4, "unjudged": 2}
        assert prompts() == first
        assert (run / "results.json").read_bytes() == results
        assert counted("score", str(run)) == {"planned": 6, "scored": 6}
    assert "unjudged, the last" not in outputs[-1]
    again = prompts() - first
    assert sorted(again.values()) == [1, 1]
    assert vendor.charged == 8


def test_doubtful_readings_are_counted_and_read_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    task = ["--task", "vstar_bench", "--synthetic", "--limit", "4", "--model", "demo:constant:Perhaps A."]
    output = orchestrator("eval", *task, "--run", str(run))

    def result() -> dict[str, Any]:
        task: dict[str, Any] = json.loads((run / "results.json").read_text())["tasks"]["vstar_bench"]
        return {name: number for name, number in task["counts"].items() if number} | {
            "read": {name: number for name, number in task["reading"]["by"].items() if number}
        }

    assert "About 3.0 points of this score may be parsing errors [2.2, 3.9]: 4 doubtful\n" in output
    assert "--answer constrained holds answers to the options" in output
    assert result() == {"planned": 4, "scored": 4, "read": {"doubtful": 4}}
    for choice, counts in (("A", {"scored": 4}), ("B", {"unparsed": 4})):
        with JudgeServer(Vendor(lambda _, choice=choice: {"choice": choice})) as url:
            page = typed(ROOT / "docs" / "judges.md")
            (line,) = (line for line in page if "--judge-reads" in line)
            arguments = line.replace("runs/first", str(run)).replace("openai:MODEL", f"openai:x@{url}").split()[1:]
            cache = str(tmp_path / f"{choice}.sqlite")
            output = orchestrator(*arguments, "--judge-cache", cache, code=4 if "unparsed" in counts else 0)
        assert result() == {"planned": 4, "read": {"second_reader": 4}} | counts
        assert "parsing" not in output
    assert "4 unparsed, readers_differ: the rule reads 'A' (likely), the judge 'B'" in output


@pytest.mark.full
def test_scored_again_by_a_panel_a_run_says_what_one_that_began_with_it_says(tmp_path: Path) -> None:
    def metrics(*arguments: str, judges: list[str]) -> dict[str, dict[str, Any]]:
        run = Path(arguments[1] if arguments[0] == "score" else arguments[-1])
        named = [word for judge in judges for word in ("--judge", judge)]
        # Judges that differ about most answers leave nothing that is a result.
        key = {"LYNCEAN_JUDGE_KEY": SECRETS[0]}
        done = commands.run(main, *arguments, *named, "--judge-cache", str(tmp_path / "c.sqlite"), environment=key)
        assert done.exit_code in (0, 4), done.stderr
        entry = json.loads((run / "results.json").read_text())["tasks"]["vstar_bench"]
        return {metric["name"]: metric for metric in entry["metrics"] if not metric["labels"]} | {"": entry["counts"]}

    # The second judge says A to some questions, and B to the others.
    with (
        JudgeServer(Vendor(lambda _: {"choice": "A"})) as one,
        JudgeServer(Vendor(lambda user: {"choice": "AB"[len(user) % 2]})) as other,
    ):
        panel = [f"openai:x@{one}", f"openai:y@{other}"]
        task = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "12"]
        arguments = [*task, "--model", "demo:constant:whichever fits", "--run"]
        alone, both = str(tmp_path / "alone"), str(tmp_path / "both")
        assert "judge agreement" not in metrics(*arguments, alone, judges=panel[:1])
        measured = metrics(*arguments, both, judges=panel)
        agreement, counts = measured["judge agreement"], measured[""]
        assert counts["unjudged"] > 0
        assert agreement["denominator"] == counts["planned"] == 12
        assert agreement["details"]["unanimous"] == counts["scored"]
        assert agreement["value"] < 1
        metrics("score", alone, judges=panel)
        assert results_of(tmp_path / "alone") == results_of(tmp_path / "both")
        assert "judge agreement" not in metrics("score", both, judges=panel[:1])
