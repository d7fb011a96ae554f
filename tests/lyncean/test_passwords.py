"""Passwords in addresses: no command repeats one, refused or not, and no run folder holds one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from helpers.passwords import ASKED, PLACES, SECRET, cases, repeats_none

from lyncean.errors import UserError
from lyncean.rpc import dial
from lyncean.rpc.addresses import refused_user, shown_place, without_passwords
from model_server.cli import main as model_server
from orchestrator import evaluate
from orchestrator.cli import main
from orchestrator.engine import parse_endpoints
from orchestrator.errors import ConfigError
from scorer.cli import main as scorer

ADDRESSES = [
    (main, f"{ASKED} --endpoint PLACE"),
    (main, f"{ASKED} --endpoint=PLACE"),
    (main, f"{ASKED} --scorer PLACE"),
    (main, f"{ASKED} --scorer PLACE --judge openai:m"),
    (main, f"{ASKED} --stage generate=PLACE"),
    (main, "check --endpoint PLACE"),
    (main, "prompts --task vstar_bench --synthetic --limit 1 --rendered --endpoint PLACE"),
    (main, "score RUN --scorer PLACE"),
    (main, "merge RUN --run x --scorer PLACE"),
]
"""Commands that take an address host:port, to which gRPC sends neither user nor password."""
DATA = [
    (main, "fetch --task marvel --data marvel=PLACE --to to"),
    (main, "fetch --task marvel --data=marvel=PLACE --to to"),
    (main, "fetch --task marvel --data PLACE --to to"),
    (main, "eval --task marvel --limit 1 --data PLACE"),
    (main, "eval --task marvel --limit 1 --data marvel=PLACE"),
]
MODELS = [
    (model_server, "serve --backend transformers --port 0 --model PLACE"),
    (model_server, "serve --backend demo --port 0 --model PLACE"),
]
JUDGES = [
    (scorer, "serve --port 0 --judge grpc:PLACE"),
    (scorer, "serve --port 0 --judge openai:m@PLACE"),
    (scorer, "serve --port 0 --judge PLACE"),
]
MISTAKES = [
    (main, f"{ASKED} --limit PLACE"),
    (main, f"{ASKED} --limit=PLACE"),
    (main, f"{ASKED} PLACE"),
    (main, f"{ASKED} -endpoint=PLACE"),
    (main, f"{ASKED} --shard PLACE"),
    (main, f"{ASKED} --set x=PLACE"),
    (main, "eval --task PLACE"),
    (main, "PLACE"),
    (main, "report PLACE"),
    (main, "label PLACE"),
    (main, "compare PLACE PLACE"),
    (model_server, "serve --port PLACE"),
    (model_server, "serve --tls-cert PLACE"),
    (scorer, "serve --port PLACE"),
]
"""Addresses given as the wrong argument, which click's errors repeat."""


@pytest.mark.parametrize(
    ("command", "line", "address"),
    [
        *cases(ADDRESSES, *PLACES),
        *cases(DATA, "user", "url", "blank", "target", "query", "bare query"),
        *cases(MODELS, "user", "url", "query", "bare query"),
        *cases(JUDGES, "user", "comma", "target"),
        *cases(MISTAKES, "user", "url", "blank", "query"),
    ],
)
def test_no_command_repeats_a_password(
    command: click.Command, line: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    repeats_none(command, line, address, tmp_path)


def test_an_address_with_a_user_is_refused_with_what_to_give() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_endpoints([PLACES["user"]])
    assert str(caught.value) == (
        "endpoint ***@127.0.0.1:9 names a user or password, which gRPC does not send: give host:port alone, and a "
        "token in a token file"
    )
    for address in (PLACES["user"], PLACES["target"]):
        with pytest.raises(UserError, match="names a user or password") as refused:
            dial(address)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("address", [PLACES[name] for name in ("user", "url", "query")])
@pytest.mark.parametrize("name", ["endpoint", "scorer", "data", "model"])
def test_the_python_api_repeats_none(name: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        evaluate("marvel", limit=1, patience=1, **{"synthetic": name != "data", name: address})
    assert SECRET not in str(caught.value)


def test_a_run_keeps_no_password_of_its_model_and_its_judge(tmp_path: Path) -> None:
    """The judge's address is used and never reached; the model's name is recorded with every result."""
    judge, address = f"openai:j@{PLACES['url']}", f"http://user:{SECRET}@127.0.0.1:9/name"
    args = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "2", "--run", "run", "--model", "demo:hash"]
    args += ["--model-option", f"name={address}", "--judge", judge, "--judge-reads", "all"]
    command = [sys.executable, "-m", "orchestrator", *args]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 4, done.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_bytes())
    assert manifest["identity"]["model"]["model_name"] == "http://***@127.0.0.1:9/name"
    assert (tmp_path / "run" / "report.html").exists()
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path, data in files.items() if SECRET.encode() in data]
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no data at http:/u:p@host/x: give PATH", "no data at http:/***@host/x: give PATH"),
        ("'http://u:p@host/v1' (and http://h/?key=x).", "'http://***@host/v1' (and http://h/?key=***)."),
        ("http://host/v1 refuses a@b.org", "http://host/v1 refuses a@b.org"),
        ("s3://bucket/run: a/b@c", "s3://bucket/run: a/b@c"),
        ("a://", "a://"),
    ],
)
def test_texts_are_shown_without(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
    assert str(UserError(text)) == shown


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("u:p@host/x", "***@host/x"),
        ("host/x?token=s&a=b", "host/x?token=***&a=b"),
        ("owner/name@v1", "owner/name@v1"),
        ("registry/image:v1@sha256:12ab", "registry/image:v1@sha256:12ab"),
        ("host:1", "host:1"),
    ],
)
def test_places_are_shown_without(word: str, shown: str) -> None:
    assert shown_place(word) == shown


def test_only_addresses_with_a_user_are_refused() -> None:
    assert refused_user("[::1]:50051") == ""
    assert SECRET not in refused_user(f"a@b:1?token={SECRET}")


def test_a_url_of_the_environment_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", PLACES["user"])
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    for command, line in (
        (model_server, "serve --backend openai --model m --port 0"),
        (scorer, "serve --judge openai:m --port 0"),
    ):
        done = CliRunner().invoke(command, line.split())
        assert (done.exit_code, SECRET in done.output) == (2, False), done.output
        assert "http://host:8000/v1" in done.stderr
