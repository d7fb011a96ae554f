"""Mistakes in a command: each is one line that says what, where and how to mend it, and exit code 2."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click import Context
from click.testing import CliRunner
from helpers.engine_cluster import Cluster, Server, wait_for
from helpers.mistakes import mistake

from orchestrator.cli import main
from orchestrator.cli.eval import command


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--set", "max_output_tokens=0"), "give 1 to"),
        (("--set", "max_output_tokens=-1"), "give 1 to"),
        (("--set", "max_output_tokens=4294967296"), "give 1 to"),
        (("--endpoint", ""), "is empty"),
        (("--endpoint", "a:1", "--endpoint", " "), "is empty"),
        (("--scorer", ""), "is empty"),
        (("--stage", "draw="), "is empty"),
        (("--endpoint", "http://localhost:8000"), "is not host:port"),
        (("--model-option", "port=1"), "the run itself decides --port"),
        (("--model-option", "=bfloat16"), "is not NAME or NAME=VALUE"),
        (("--model-option", "dtypo=bfloat16"), "model-server has ended: No such option '--dtypo'"),
        (("--rules", "nowhere.yaml"), "--rules nowhere.yaml: there is no such file"),
        (("--rules", "r.yaml", "--scorer", "h:1"), "has rules of its own: give --rules to its `scorer serve`"),
        (("--model", "gpt-4o"), "a model behind an API is openai:gpt-4o, or litellm:VENDOR/gpt-4o"),
        (("--model", "openai:"), "give openai:NAME or openai:NAME@URL"),
        (("--model", "openai:m@host:8000"), "give the URL with http:// or https://"),
        (("--endpoint", "a:1", "--model-option", "dtype=float32"), "--model-option starts a model server"),
        (("--tasks", "a,b"), "no such option --tasks: give --task"),
        (("vstar",), "vstar: a task is named by an option, --task vstar"),
        (("marvel", "--run", "marvel"), "marvel: a task is named by an option, --task marvel"),
        (("--task", "vstar_bench,nowhere"), "nowhere"),
        (("--model_args", "pretrained=x"), "--model names the checkpoint, --model-option"),
        (("--batch_size", "8"), "--model-option max-batch=N"),
        (("--max-tokens", "9"), "--generation max_output_tokens=N for each answer"),
        (("--trust_remote_code",), "--model-option trust-remote-code"),
    ],
)
def test_words_that_cannot_be_meant(options: tuple[str, ...], hint: str) -> None:
    assert hint in mistake(command, "--task", "marvel", "--synthetic", *options)


def test_a_tasks_name_alone_is_that_task() -> None:
    named = [
        CliRunner().invoke(main, ["eval", *tasks, "--synthetic", "--limit", "1", "--dry-run"])
        for tasks in (["marvel", "vstar_bench"], ["--task", "marvel", "--task", "vstar_bench"])
    ]
    assert [result.exit_code for result in named] == [0, 0], named[0].output
    assert named[0].stdout == named[1].stdout
    assert "vstar_bench" in named[0].stdout


def test_the_help_has_every_option_once() -> None:
    shown = CliRunner().invoke(main, ["eval", "--help"]).stdout
    flags = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.MULTILINE)
    wanted = [max(option.opts, key=len) for option in command.get_params(Context(command))]
    assert sorted(flags) == sorted(wanted)
    assert flags.index("--model") < flags.index("--seed") < flags.index("--tls")


@pytest.mark.parametrize(
    ("option", "number"),
    [
        ("--seed", "99999999999999999999999999"),
        ("--limit", "99999999999999999999"),
        ("--repeats", "99999999999999999999"),
        ("--concurrency", "99999999999999999999"),
        ("--max-requests-per-second", "nan"),
        ("--max-requests-per-second", "1e-320"),
        ("--share", "0"),
        ("--timeout", "inf"),
        ("--timeout", "nan"),
        ("--timeout", "1e12"),
        ("--patience", "nan"),
        ("--deadline", "inf"),
    ],
)
def test_numbers_that_cannot_be_meant(option: str, number: str) -> None:
    assert f"Invalid value for '{option}'" in mistake(
        command, "--task", "marvel", "--synthetic", "--dry-run", option, number
    )


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("eval", "-t", "marvel", "--synthetic", "--run", ""), "it is empty: give a run folder"),
        (("eval", "-t", "marvel", "--synthetic", "--run", "b\udcff"), "is not UTF-8"),
        (("merge", "part", "--run", " "), "it is empty"),
        (("merge", "", "--run", "whole"), "it is empty"),
        (("score", ""), "it is empty"),
        (("report", ""), "it is empty"),
        (("compare", "", ""), "it is empty"),
    ],
)
def test_an_empty_variable_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert hint in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["", "marvel="])
def test_an_empty_variable_is_not_the_hub(word: str) -> None:
    assert "names no data" in mistake(command, "--task", "marvel", "--data", word)


@pytest.mark.parametrize("word", ["s3://key:hush@bucket/rows.parquet", "marvel=https://h/x?token=hush"])
def test_a_url_is_no_data_and_its_password_is_not_told(word: str) -> None:
    message = mistake(command, "--task", "marvel", "--data", word)
    assert "is a URL: download it" in message
    assert "hush" not in message


def test_data_without_a_row_is_no_complete_run(tmp_path: Path) -> None:
    columns = [
        "id", "pattern", "task_configuration", "avr_question", "explanation", "answer", "f_perception_question",
        "f_perception_answer", "f_perception_distractor", "c_perception_question_tuple", "c_perception_answer_tuple",
        "image",
    ]  # fmt: skip
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({name: pa.array([], pa.string()) for name in columns}), path)
    assert "has no rows" in mistake(command, "--task", "marvel", "--data", str(path))


def test_the_wrong_service_at_an_address(cluster: Cluster, shared_scorer: Server) -> None:
    model = cluster.model()
    output = cluster.eval("a", [model], model, "--limit", "1", code=2)
    assert f"Error: {model.address} does not speak lyncean.scorer.v1.ScorerService" in output
    output = cluster.eval("b", [shared_scorer], shared_scorer, "--limit", "1", code=2)
    assert f"Error: {shared_scorer.address} does not speak lyncean.model.v1.ModelService: is that the model" in output


def test_tls_where_there_is_none(cluster: Cluster, shared_scorer: Server) -> None:
    output = cluster.eval("a", [cluster.model()], shared_scorer, "--tls", "--patience", "1", code=3)
    assert "TLS handshake failed: WRONG_VERSION_NUMBER" in output
    assert "ssl_transport_security" not in output


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_a_server_of_its_own_that_was_killed_can_be_resumed(cluster: Cluster, shared_scorer: Server) -> None:
    arguments = ("eval", "--task", "toy", "--synthetic", "--limit", "12", "--model", "demo:hash", "--run", "run")
    arguments += ("--scorer", shared_scorer.address, "--max-unparsed", "1")
    running = cluster.start(*arguments, "--max-requests-per-second", "5")
    answers = cluster.folder / "run" / "responses.jsonl"
    wait_for(lambda: answers.exists() and answers.stat().st_size)
    (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)
    errors = cluster.ended(running, 3)
    assert "Error: model-server has ended by SIGKILL; every answer is safe" in errors
    kept = answers.read_bytes()
    cluster.orchestrator(*arguments)
    assert answers.read_bytes().startswith(kept)
    assert cluster.counts("run")["scored"] + cluster.counts("run")["unparsed"] == 12
