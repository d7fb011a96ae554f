"""Options that would be taken and not used end a command, with the option's name."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from helpers.engine_cluster import Cluster
from helpers.mistakes import mistake

from model_server.cli import main as model_server
from orchestrator.cli import main as orchestrator
from scorer.cli import main as scorer

EVAL = ("eval", "--task", "toy", "--synthetic")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*EVAL, "--endpoint", "a:1", "--model", "demo"), "--model starts a model server, --endpoint names"),
        ((*EVAL, "--tls"), "--tls is for servers that run already: give --endpoint or --scorer or --stage"),
        ((*EVAL, "--tls-ca", __file__), "--tls-ca is for servers that run already"),
        ((*EVAL, "--judge-cache", "x"), "--judge-cache keeps what a judge said, and there is none"),
        ((*EVAL, "--judge-reads", "doubtful"), "--judge-reads says what a judge reads, and there is none"),
        ((*EVAL[:-1], "--data", "a", "--data", "b"), "--data a and --data b: give one for all tasks"),
        ((*EVAL[:-1], "--data", "toy=a", "--data", "toy=b"), "toy has data already (a)"),
        (
            ("score", "run", "--tls-server-name", "x"),
            "--tls-server-name is for servers that run already: give --scorer",
        ),
        (("merge", "a", "--run", "b", "--tls"), "--tls is for servers that run already"),
        (("report", ".", "--format", "terminal", "--compare-published"), "--compare-published is for the page"),
        (("compare", ".", ".", "--html-flips", "3"), "--html-flips is for the page: give --html FILE"),
    ],
)
def test_of_the_orchestrator(arguments: tuple[str, ...], message: str) -> None:
    assert message in mistake(orchestrator, *arguments)


@pytest.mark.parametrize("word", ["--judge-max-requests=3", "--judge-cache=x", "--judge-reads=none"])
def test_of_a_judge_that_is_not_there(word: str) -> None:
    assert "concerns a judge, and there is none: give --judge SPEC" in mistake(scorer, "serve", word)


@pytest.mark.parametrize("command", [model_server, scorer])
@pytest.mark.parametrize("port", ["-1", "65536"])
def test_metrics_ports_are_ports(command: click.Command, port: str) -> None:
    assert "is not in the range 0<=x<=65535" in mistake(command, "serve", f"--metrics-port={port}")


def test_a_token_in_the_environment_is_no_option(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYNCEAN_TOKEN", "everybody-has-one")
    cluster.orchestrator(*EVAL, "--limit", "2", "--run", "run", "--model", "demo:constant:B")
    assert cluster.counts("run")["planned"] == 2


def test_model_alone_is_what_is_started(cluster: Cluster, tmp_path: Path) -> None:
    cluster.orchestrator(*EVAL, "--limit", "2", "--run", "run", "--model", "demo:constant:B")
    assert {line["extracted"] for line in cluster.lines("run", "verdicts.jsonl")} == {"B"}
