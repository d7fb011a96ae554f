"""Addresses with passwords, and commands to which they are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

SECRET = "planted-5b1e"
PLACES = {
    "user": f"user:{SECRET}@127.0.0.1:9",
    "token": f"{SECRET}@127.0.0.1:9",
    "comma": f"a:1,user:{SECRET},{SECRET}@127.0.0.1:9",
    "url": f"http://user:{SECRET}@127.0.0.1:9/v1",
    "blank": f"http://user:x {SECRET}@127.0.0.1:9/v1",
    "target": f"dns:///user:{SECRET}@127.0.0.1:9",
    "query": f"https://127.0.0.1:9/v1?api_key={SECRET}",
    "bare query": f"127.0.0.1:9?token={SECRET}",
}
ASKED = "eval --task vstar_bench --synthetic --limit 1 --patience 0 --model demo:hash"


def cases(commands: list[tuple[click.Command, str]], *places: str) -> list[Any]:
    return [
        pytest.param(command, line, PLACES[name], id=f"{line.replace(ASKED, 'eval')} {name}")
        for command, line in commands
        for name in places
    ]


def repeats_none(command: click.Command, line: str, address: str, folder: Path) -> None:
    """Runs a command in the working folder; fails unless it refuses the address without its password."""
    arguments = [word.replace("PLACE", address).replace("RUN", str(folder)) for word in line.split()]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert SECRET not in done.output
    assert not any(SECRET.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())
