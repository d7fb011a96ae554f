"""The command line as a process: files in, lines out, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from helpers import commands

from lyncean.rpc import dial, is_serving
from scorer.cli import main


def scorer(*arguments: str, stdin: str | None = None) -> Result:
    return commands.run(main, *arguments, given=stdin)


def item(key: str, best: int, **fields: object) -> str:
    scores = [{"logprob": -1.0 if n == best else -3.0, "token_count": 1} for n in range(3)]
    return json.dumps(
        {"key": key, "rule": "likelihood", "scores": scores, "options": ["x", "y", "z"], "targets": ["B"], **fields}
    )


def test_one_verdict_a_line_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text("\n".join([item("t/2", 1), "", item("t/1", 0)]) + "\n")
    done = scorer("score", str(file))
    assert (done.exit_code, done.stderr) == (0, "")
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["key"] == "t/2"
    assert (first["outcome"], first["extracted"], first["score"]) == ("scored", "B", 1.0)
    assert second["score"] == 0.0
    assert (second["reason"], second["detail"]) == ("", "")
    assert second["scores"]["margin"] == 2.0


def test_stdin_and_an_empty_answer() -> None:
    empty = '{"key": "k", "rule": "contains_word", "text": "", "targets": ["x"]}\n'
    done = scorer("score", "-", stdin=empty)
    verdict = json.loads(done.stdout)
    assert (verdict["outcome"], verdict["reason"], verdict["score"], verdict["extracted"]) == (
        "unparsed",
        "empty_answer",
        0.0,
        "",
    )


def test_metrics_end_the_output(tmp_path: Path) -> None:
    specs = tmp_path / "specs.json"
    specs.write_text('[{"name": "acc", "metric": "accuracy", "by": [{"labels": ["a"]}]}]')
    lines = [item("t/1", 1, labels={"a": "x"}), '{"key": "t/2", "verdict": {"outcome": "failed"}}']
    done = scorer("score", "-", "--metrics", str(specs), stdin="\n".join(lines))
    verdict, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert verdict["key"] == "t/1"
    assert summary["summary"]["metrics"][0]["value"] == 0.5
    assert summary["summary"]["counts"] == {
        "planned": "2",
        "scored": "1",
        "failed": "1",
        "unparsed": "0",
        "refused": "0",
        "rejected": "0",
        "unjudged": "0",
    }


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"key": "k"', "line 2"),
        ("[1]", "line 2"),
        ('{"key": "k", "rulee": "x"}', "rulee"),
        ('{"key": "k", "rule": "nope", "text": "x"}', "nope"),
        ('{"rule": "choice", "text": "x"}', "no key"),
        ('{"key": "k", "verdict": {"outcome": "lost"}}', "lost"),
    ],
)
def test_a_bad_line_is_named_in_one_line(tmp_path: Path, line: str, part: str) -> None:
    file, specs = tmp_path / "items.jsonl", tmp_path / "specs.json"
    file.write_text(item("good", 1) + "\n" + line + "\n")
    specs.write_text('[{"name": "acc", "metric": "accuracy"}]')
    done = scorer("score", str(file), "--metrics", str(specs))
    assert done.exit_code == 2
    assert json.loads(done.stdout)["key"] == "good"
    assert len(done.stderr.strip().splitlines()) == 1
    assert part in done.stderr
    assert "line 2" in done.stderr


def test_bad_metrics_are_named(tmp_path: Path) -> None:
    for text, part in (
        ("{}", "list"),
        ('[{"name": "a", "metric": "nope"}]', "nope"),
        ('[{"nam": "a"}]', "nam"),
        ("[", "specs.json"),
    ):
        (tmp_path / "specs.json").write_text(text)
        done = scorer("score", "-", "--metrics", str(tmp_path / "specs.json"), stdin="")
        assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1)
        assert part in done.stderr


def test_rules_lists_every_rule_with_its_hash() -> None:
    listed = json.loads(scorer("rules", "--json").stdout)
    rules = {rule["name"]: rule for rule in listed["rules"]}
    assert re.fullmatch("[0-9a-f]{64}", rules["likelihood"]["sha256"])
    assert len({rule["sha256"] for rule in rules.values()}) == len(rules)
    assert all(rule["description"] for rule in rules.values())
    assert "accuracy" in scorer("rules").stdout


async def test_serve_drains_at_sigterm(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "scorer", "serve", "--port", "0", "--port-file", str(port_file)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "LYNCEAN_TOKEN": "t"})
    assert process.stderr is not None
    assert "listens on" in process.stderr.readline()
    async with dial(f"127.0.0.1:{port_file.read_text().strip()}") as channel:
        assert await is_serving(channel)
        assert await is_serving(channel, "lyncean.scorer.v1.ScorerService")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    process.stderr.close()


def test_a_port_that_is_taken_is_a_usage_error() -> None:
    done = scorer("serve", "--host", "203.0.113.1", "--port", "1")
    assert done.exit_code == 2
    assert "cannot listen" in done.stderr.splitlines()[-1]
