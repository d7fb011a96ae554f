"""`orchestrator eval` against real servers: what works, and each mistake in one line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server, environment, free_port
from helpers.mistakes import one_line

from orchestrator.run.merge import merge
from orchestrator.run_folder.manifest import ManifestError


def test_generate(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model()
    output = cluster.eval("run", [server], shared_scorer)
    assert "report.html" in output
    assert cluster.counts("run")["scored"] == 40
    assert cluster.calls().total() == 40
    lines = cluster.lines("run")
    assert {line["key"] for line in lines} == {f"toy/{n}" for n in range(40)}
    images = {
        part["image"]["sha256"] for line in lines for part in line["request"]["messages"][0]["parts"] if "image" in part
    }
    assert images == {path.name for path in (cluster.folder / "run" / "images").iterdir()}


def test_likelihood(cluster: Cluster, shared_scorer: Server) -> None:
    cluster.eval("run", [cluster.model()], shared_scorer, "--method", "likelihood")
    verdicts = cluster.lines("run", "verdicts.jsonl")
    assert {line["outcome"] for line in verdicts} == {"scored"}
    # "red" is the shortest option and the server's score falls with length.
    assert {line["extracted"] for line in verdicts} == {"red"}


def test_same_results_in_any_order(cluster: Cluster, shared_scorer: Server) -> None:
    quick, flaky = cluster.model("--concurrency", "1"), cluster.model("--flaky", "0.3", "--delay", "0.005")
    cluster.eval("a", [quick], shared_scorer)
    cluster.eval("b", [quick, flaky], shared_scorer, "--concurrency", "16")
    assert cluster.results("a") == cluster.results("b")


def test_stage_and_two_turns(cluster: Cluster, shared_scorer: Server) -> None:
    first, second = cluster.model(), cluster.model("--weights", "2")
    options = ("--task", "toy_two", "--stage", f"second={second.address}", "--limit", "12")
    cluster.eval("run", [first], shared_scorer, *options)
    assert cluster.counts("run", "toy_two")["planned"] == 12
    assert (second.folder / "calls").read_text().count("/2") == 12
    assert "/2" not in (first.folder / "calls").read_text()
    assert [line["scoring"] is None for line in cluster.lines("run") if line["turn"] == "look"] == [True] * 12


def test_outcomes(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--too-long", "7", "--empty", "5", "--filtered", "11")
    cluster.eval("run", [server], shared_scorer)
    expected = dict.fromkeys(range(40), "scored")
    expected |= dict.fromkeys(range(0, 40, 11), "refused")
    expected |= dict.fromkeys(range(0, 40, 5), "unparsed")
    expected |= dict.fromkeys(range(0, 40, 7), "rejected")
    assert {line["key"]: line["outcome"] for line in cluster.lines("run", "verdicts.jsonl")} == {
        f"toy/{n}": outcome for n, outcome in expected.items()
    }
    rejected = next(line for line in cluster.lines("run") if line["key"] == "toy/7")
    assert rejected["error"]["reason"] == "context_overflow"


def test_a_failed_item_is_asked_again_on_resume(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--broken", "8")
    output = cluster.eval("run", [server], shared_scorer, code=3)
    assert "5 items failed" in one_line(output)
    assert cluster.counts("run") == cluster.counts("run") | {"planned": 40, "failed": 5}
    server.mend("--broken", "8")
    cluster.eval("run", [server], shared_scorer)
    assert cluster.counts("run")["scored"] == 40
    assert cluster.calls() == {str(n): 1 for n in range(40)}


def test_a_failed_first_turn_fails_the_second_and_both_come_back(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--broken", "4")
    options = ("--task", "toy_two", "--limit", "8")
    cluster.eval("run", [server], shared_scorer, *options, code=3)
    later = next(line for line in cluster.lines("run") if line["key"] == "toy_two/4:tell")
    assert (later["outcome"], later["error"]["reason"], later["request"]) == ("failed", "earlier_turn", None)
    server.mend("--broken", "4")
    cluster.eval("run", [server], shared_scorer, *options)
    assert cluster.counts("run", "toy_two")["scored"] == 8
    assert cluster.calls() == {f"{n}{turn}": 1 for n in range(8) for turn in ("", "/2")}


def test_a_corrupt_row_is_rejected_and_the_run_goes_on(cluster: Cluster, shared_scorer: Server, tmp_path: Path) -> None:
    data = tmp_path / "ids.txt"
    data.write_text("1 2 bad3 4")
    cluster.eval("run", [cluster.model()], shared_scorer, "--data", str(data))
    assert cluster.counts("run") | {"rejected": 1, "scored": 3} == cluster.counts("run")
    assert "bad3" not in cluster.calls()


def test_an_answer_that_leaves_nothing_to_ask_with(cluster: Cluster, shared_scorer: Server) -> None:
    cluster.eval("run", [cluster.model("--empty", "2")], shared_scorer, "--task", "toy_two", "--limit", "8")
    assert cluster.counts("run", "toy_two")["unparsed"] == 4
    reasons = {line["key"]: line.get("reason") for line in cluster.lines("run", "verdicts.jsonl")}
    assert reasons["toy_two/2:tell"] == "nothing_said"


def test_more_without_a_result_than_allowed_ends_with_4(cluster: Cluster, shared_scorer: Server) -> None:
    empty, broken = cluster.model("--empty", "2"), cluster.model("--broken", "4")
    output = cluster.eval("empty", [empty], shared_scorer, "--limit", "8", "--max-unparsed", "0.4", code=4)
    assert "4 of 8 items are unparsed, --max-unparsed allows 40.0%" in output
    cluster.eval("empty", [empty], shared_scorer, "--limit", "8", "--max-unparsed", "0.5")
    output = cluster.eval("broken", [broken], shared_scorer, "--limit", "8", "--max-failed", "0.2", code=4)
    assert "2 of 8 items are failed, --max-failed allows 20.0%" in output
    cluster.eval("broken", [broken], shared_scorer, "--limit", "8", "--max-failed", "0.5", code=3)


def test_blind_sends_grey_of_the_same_size(cluster: Cluster, shared_scorer: Server) -> None:
    cluster.eval("run", [cluster.model()], shared_scorer, "--blind", "--limit", "6")
    assert len(list((cluster.folder / "run" / "images").iterdir())) == 1


def test_json_on_stdout(cluster: Cluster, shared_scorer: Server) -> None:
    process = cluster.start(*cluster.words("run", [cluster.model()], shared_scorer, "--json", "--limit", "4"))
    out, _ = process.communicate(timeout=300)
    assert out.encode() == (cluster.folder / "run" / "results.json").read_bytes()


def test_dry_run_sends_nothing(cluster: Cluster, shared_scorer: Server) -> None:
    output = cluster.eval("run", [cluster.model()], shared_scorer, "--task", "toy_two", "--limit", "5", "--dry-run")
    assert "10 calls for 5 scored items" in output
    assert "5 images" in output
    assert "160 output tokens" in output
    assert not cluster.calls()
    assert not (cluster.folder / "run").exists()


def test_duplicate_ids_are_a_defect(cluster: Cluster, shared_scorer: Server, tmp_path: Path) -> None:
    data = tmp_path / "ids.txt"
    data.write_text("1 2 1")
    output = cluster.eval("run", [cluster.model()], shared_scorer, "--data", str(data), code=1)
    assert "'toy/1' twice" in one_line(output)


def test_replicas_of_other_weights(cluster: Cluster, shared_scorer: Server) -> None:
    a, b = cluster.model(), cluster.model("--weights", "2")
    error = one_line(cluster.eval("run", [a, b], shared_scorer, code=2))
    assert b.address in error or a.address in error
    assert "model_revision" in error
    assert not cluster.calls()


def test_no_likelihood(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--no-likelihood")
    error = one_line(cluster.eval("run", [server], shared_scorer, "--method", "likelihood", code=2))
    assert "--method generate" in error


def test_the_folder_of_another_command(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model()
    cluster.eval("run", [server], shared_scorer, "--limit", "4")
    error = one_line(cluster.eval("run", [server], shared_scorer, "--limit", "4", "--seed", "9", code=2))
    assert "seed is 0 there and 9 here" in error


def test_an_endpoint_that_is_not_there(cluster: Cluster, shared_scorer: Server) -> None:
    arguments = ("eval", "--task", "toy", "--synthetic", "--endpoint", f"127.0.0.1:{free_port()}", "--run", "run")
    error = one_line(cluster.orchestrator(*arguments, "--scorer", shared_scorer.address, "--patience", "0.5", code=3))
    assert "Connection refused" in error
    assert "is model-server running there" in error


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--task", "toi"), "did you mean toy"),
        (("--task", "toy", "--data", "no/such"), "no data at no/such"),
        (("--task", "toy", "--synthetic", "--set", "colour=1"), "known settings are tokens"),
        (("--task", "toy", "--synthetic", "--set", "tokens=many"), "a valid integer"),
        (("--task", "toy", "--synthetic", "--endpoint", "nonsense"), "is not host:port"),
        (("--task", "toy", "--synthetic", "--shard", "3/3"), "I from 0 to N-1"),
        (("--task", "toy", "--synthetic", "--data", "x"), "leave one out"),
    ],
)
def test_mistakes_before_anything_starts(cluster: Cluster, arguments: tuple[str, ...], hint: str) -> None:
    assert hint in one_line(cluster.orchestrator("eval", *arguments, code=2))


def test_embedded_servers_and_default_folder(cluster: Cluster) -> None:
    command = ("eval", "--task", "toys", "--synthetic", "--limit", "3", "--model", "demo:hash")
    command = (*command, "--model-option", "name=mine", "--max-unparsed", "1")
    output = cluster.orchestrator(*command)
    assert "toy_two" in output
    (run,) = (cluster.folder / "runs").iterdir()
    assert run.name.startswith("toy+1-mine")
    before = (run / "responses.jsonl").read_bytes()
    cluster.orchestrator(*command)
    assert (run / "responses.jsonl").read_bytes() == before


def test_score_again_without_a_model(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--too-long", "7")
    cluster.eval("run", [server], shared_scorer)
    before = cluster.results("run")
    server.kill()
    (cluster.folder / "run" / "verdicts.jsonl").unlink()
    cluster.orchestrator("score", "run", "--scorer", shared_scorer.address)
    assert cluster.results("run") == before


def test_shards_merge_to_the_same_results(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--too-long", "9")
    cluster.eval("whole", [server], shared_scorer)
    for index in range(3):
        cluster.eval(f"part{index}", [server], shared_scorer, "--shard", f"{index}/3")
    scorer = ("--scorer", shared_scorer.address)
    cluster.orchestrator("merge", "part2", "part0", "part1", "--run", "merged", *scorer)
    assert cluster.results("merged") == cluster.results("whole")
    # Killed before the metrics, and killed in the middle of a copy: the same command again finishes it.
    merged = cluster.folder / "merged"
    copied = {name: (merged / name).read_bytes() for name in ("responses.jsonl", "verdicts.jsonl")}
    for left in ("whole", "torn"):
        (merged / "results.json").unlink()
        if left == "torn":
            (merged / "manifest.json").unlink()
            (merged / "responses.jsonl").write_bytes(copied["responses.jsonl"][:777])
        cluster.orchestrator("merge", "part2", "part0", "part1", "--run", "merged", *scorer)
        assert cluster.results("merged") == cluster.results("whole")
        assert {name: (merged / name).read_bytes() for name in copied} == copied
    folder = cluster.folder
    shutil.copytree(folder / "part1", folder / "copy")
    manifest = folder / "copy" / "manifest.json"
    for parts, run, reason in (
        (("part0", "part1", "part2"), "whole", "not of these shards"),
        (("part0", "part2"), "new", "gap: shard 1/3 is missing"),
        (("part0", "part1", "copy", "part2"), "new", "shard 1/3 is there twice"),
        (("part0", "part1", "copy"), "new", "an overlap: 'toy/"),
    ):
        if "overlap" in reason:
            manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"shard": {"index": 2, "of": 3}}))
        with pytest.raises(ManifestError, match=re.escape(reason)):
            merge([folder / part for part in parts], folder / run)


def test_tokens_and_deadline_stop_and_resume(cluster: Cluster, shared_scorer: Server) -> None:
    # Busy machines take seconds to the first call; all of them take twenty.
    slow = cluster.model("--delay", "1", "--concurrency", "2")
    error = one_line(cluster.eval("run", [slow], shared_scorer, "--deadline", "5", code=3))
    assert "deadline" in error
    assert 0 < cluster.calls().total() < 40
    server = cluster.model("--concurrency", "2")
    error = one_line(cluster.eval("run", [server], shared_scorer, "--max-tokens-total", "11", code=3))
    assert "tokens" in error
    cluster.eval("run", [server], shared_scorer)
    assert cluster.calls() == {str(n): 1 for n in range(40)}


def test_tokens_are_counted_over_all_commands_of_a_run(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--concurrency", "2")
    budget = ("--max-tokens-total", "50")
    cluster.eval("run", [server], shared_scorer, *budget, code=3)
    calls = cluster.calls()
    assert 0 < calls.total() < 40
    error = one_line(cluster.eval("run", [server], shared_scorer, *budget, code=3))
    assert "so far in this run); run the command again with more to resume" in error
    assert cluster.calls() == calls
    cluster.eval("run", [server], shared_scorer, "--max-tokens-total", "100000")
    assert cluster.calls() == {str(n): 1 for n in range(40)}


def test_a_budget_that_is_just_enough_is_enough(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--concurrency", "2")
    cluster.eval("whole", [server], shared_scorer)
    usages = [line["response"]["usage"] for line in cluster.lines("whole")]
    spent = sum(usage.get("input_tokens", 0) + usage.get("output_tokens", 0) for usage in usages)
    cluster.eval("run", [server], shared_scorer, "--max-tokens-total", str(spent))
    assert cluster.results("run") == cluster.results("whole")
    cluster.eval("less", [server], shared_scorer, "--max-tokens-total", str(spent - usages[0]["output_tokens"]))
    assert cluster.counts("less")["scored"] == 40
    cluster.eval("short", [server], shared_scorer, "--max-tokens-total", str(spent // 2), code=3)


def test_brackets_in_names_are_printed_as_they_are(cluster: Cluster, shared_scorer: Server) -> None:
    run = "q[/x][bold]é ü/r"
    output = cluster.eval(run, [cluster.model()], shared_scorer, "--limit", "4")
    assert f"report: {run}/report.html" in output.replace(f"{cluster.folder}/", "")


def test_no_secret_in_a_run_folder(cluster: Cluster, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "planted-token-4711"
    token = cluster.folder / "token"
    token.write_text(secret)
    monkeypatch.setenv("LYNCEAN_TOKEN", secret)
    cluster.eval("run", [cluster.model()], shared_scorer, "--limit", "4", "--token-file", str(token))
    for path in (cluster.folder / "run").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_a_wrong_token_stops_the_run_at_once(cluster: Cluster, shared_scorer: Server, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("right")
    wrong.write_text("wrong")
    server = cluster.model("--token-file", str(right))
    error = one_line(cluster.eval("run", [server], shared_scorer, "--token-file", str(wrong), code=2))
    assert "refuses the credential" in error
    cluster.eval("run", [server], shared_scorer, "--limit", "4", "--token-file", str(right))
    assert cluster.counts("run")["scored"] == 4


def test_a_run_says_from_its_start_how_many_items_there_will_be(cluster: Cluster, shared_scorer: Server) -> None:
    options = ("--task", "toy_two", "--limit", "30", "--max-tokens-total", "55")
    cluster.eval("run", [cluster.model()], shared_scorer, *options, code=3)
    manifest = json.loads((cluster.folder / "run" / "manifest.json").read_text())
    assert manifest["expected"] == 30
    assert "planned" not in manifest
    cluster.eval("shard", [cluster.model()], shared_scorer, *options[:4], "--shard", "0/3")
    manifest = json.loads((cluster.folder / "shard" / "manifest.json").read_text())
    assert manifest["expected"] == 10
    assert sum(manifest["planned"].values()) == cluster.counts("shard", "toy_two")["planned"]


_STOPPED = """
import asyncio, importlib, os, signal, sys
module_name, name = sys.argv.pop(1).split(":")
module = importlib.import_module(module_name)
work = getattr(module, name)
def asked_to_end(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGTERM)
    return work(*args, **kwargs)
setattr(module, name, asked_to_end)
from orchestrator.cli import main
main()
"""


@pytest.mark.parametrize(
    ("function", "left"),
    [
        ("orchestrator.run.results:write", ["results.json", "report.html"]),
        ("orchestrator.report.finish:write_report", ["report.html"]),
    ],
)
def test_sigterm_while_results_and_report_are_made_is_a_stop(
    function: str, left: list[str], cluster: Cluster, shared_scorer: Server
) -> None:
    servers = [cluster.model()]
    cluster.eval("whole", servers, shared_scorer)
    command = [sys.executable, "-c", _STOPPED, function, *cluster.words("run", servers, shared_scorer)]
    ended = subprocess.run(
        command, cwd=cluster.folder, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 3, ended.stderr
    assert one_line(ended.stderr).endswith("stopped; run the same command again")
    files = {path.name for path in (cluster.folder / "whole").iterdir()}
    assert files - {path.name for path in (cluster.folder / "run").iterdir()} == set(left)
    calls = cluster.calls().total()
    cluster.eval("run", servers, shared_scorer)
    assert cluster.results("run") == cluster.results("whole")
    assert cluster.calls().total() == calls
