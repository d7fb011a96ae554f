"""Model servers behind the HTTP front are judges."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from helpers import commands
from helpers.engine_cluster import Server

JUDGE = """
import sys
from model_server.kit import Model, Request, main

class Judge(Model):
    name = sys.argv.pop(1)
    answer_json_schema = True

    def generate(self, request: Request) -> str:
        return '{"choice": "2"}'

main(Judge)
"""


def test_models_behind_the_http_front_are_a_panel(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    (tmp_path / "judge.py").write_text(JUDGE)
    judges: list[str] = []
    servers = []
    try:
        for name in ("one", "two"):
            command = [sys.executable, str(tmp_path / "judge.py"), name]
            servers.append(Server(tmp_path / name, command).start("--http-port", "0"))
            port = re.findall(r"HTTP on 127.0.0.1:(\d+)", (tmp_path / name / "output").read_text())[-1]
            judges += ["--judge", f"openai:{name}@http://127.0.0.1:{port}/v1"]
        args = ["--task", "marvel", "--set", "questions=avr", "--synthetic", "--limit", "6"]
        args += ["--model", "demo:constant:whichever fits", "--run", str(tmp_path / "run"), *judges]
        commands.orchestrator("eval", *args, environment={"LYNCEAN_JUDGE_KEY": "k3y-of-the-judge"})
    finally:
        for server in servers:
            server.kill()
    verdicts = [json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()]
    assert [(verdict["extracted"], verdict["reason"]) for verdict in verdicts] == [("2", "judge_reread")] * 6
    assert all(len(verdict["panel"]) == 2 for verdict in verdicts)
