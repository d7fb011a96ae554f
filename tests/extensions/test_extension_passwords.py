"""Passwords in addresses: no command of an extension repeats one."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from helpers.passwords import PLACES, SECRET, cases, repeats_none

from lyncean_harnesses.library.models.client import Client, ModelError
from lyncean_kubernetes.cli.wait import main as wait
from model_server.cli import main as model_server
from orchestrator.cli import main

ADDRESSES = [
    (main, "submit --run first --task vstar_bench --endpoint PLACE"),
    (wait, "--patience 0 --endpoint PLACE"),
    (wait, "--patience 0 --scorer PLACE"),
]
MODELS = [(main, "submit --run first --task vstar_bench --model PLACE")]
MISTAKES = [(model_server, "http --endpoint 127.0.0.1:9 --port PLACE"), (wait, "--shards PLACE")]


@pytest.mark.parametrize(
    ("command", "line", "address"),
    [
        *cases(ADDRESSES, *PLACES),
        *cases(MODELS, "user", "url", "query", "bare query"),
        *cases(MISTAKES, "user", "url", "blank", "query"),
    ],
)
def test_no_command_repeats_a_password(
    command: click.Command, line: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    repeats_none(command, line, address, tmp_path)


@pytest.mark.parametrize("address", [PLACES["user"], PLACES["target"]])
def test_a_model_of_a_harness_is_not_asked_with_a_user(address: str) -> None:
    with pytest.raises(ModelError, match="names a user or password") as model:
        Client.from_arguments({"endpoint": address})
    assert SECRET not in str(model.value)
