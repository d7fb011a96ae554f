"""Runs that are killed, beside runs that are not; `killed_runs.py` is the process that kills."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from helpers.engine_cluster import HERE, Server, environment
from orchestrator.api import evaluate


def play_killed(run: Path, kills: int, options: Mapping[str, Any], commands: Sequence[Sequence[str]] = ()) -> None:
    """Plays a run that is killed so often, and the servers of tools of these commands with it."""
    command = [str(HERE / "killed_runs.py"), str(run), str(kills), "5", json.dumps(options)]
    command += [json.dumps(commands)] if commands else []
    done = subprocess.run([sys.executable, *command], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == kills


def play_whole(folder: Path, run: Path, options: Mapping[str, Any], commands: Sequence[Sequence[str]]) -> None:
    """Plays the same run with servers of tools that stay."""
    servers = [Server(folder / f"server{n}", list(command)).start() for n, command in enumerate(commands)]
    try:
        names = ["zoom", *(f"grpc:{server.address}" for server in servers)]
        evaluate(**{**options, "tools": names}, run=run)
    finally:
        for server in servers:
            server.kill()


def keys(run: Path) -> Counter[str]:
    """Returns how often the log has each key."""
    return Counter(orjson.loads(line)["key"] for line in (run / "responses.jsonl").read_bytes().splitlines())


def answered(log: Path) -> Counter[str]:
    """Returns the calls that a server of tools answered, as `logged_tools.py` wrote them."""
    return Counter(line.split()[0] for line in log.read_text().splitlines())
