"""Runs whose models run code in the sandbox: variables are kept over three calls, and kills change no byte."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from helpers.engine_cluster import HERE, Server, environment
from helpers.noisy_task import task
from helpers.same_results import results_of
from PIL import Image

from orchestrator.api import evaluate
from orchestrator.errors import ConfigError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="code is closed in by Linux: run the tests there")
SANDBOX = [sys.executable, "-m", "tool_server", "sandbox"]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("coding"), [sys.executable, str(HERE / "coding_server.py")]).start()
    yield server.address
    server.kill()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("sandbox"), SANDBOX).start()
    yield f"grpc:{server.address}"
    server.kill()


def answered(folder: Path, rows: int) -> str:
    """Writes a task whose answers only the pixels tell."""
    file = task(folder, rows)
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for line in lines:
        image = Image.open(io.BytesIO((folder / line["image"]).read_bytes()))
        pixels = np.asarray(image.convert("L")).astype(int)
        line["answer"] = "ABCD"[int(pixels.sum()) % 4]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return file


def lines_of(run: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (run / "responses.jsonl").read_bytes().splitlines()]


def test_a_model_runs_code_over_three_calls(tmp_path: Path, endpoint: str, sandbox: str) -> None:
    arguments = ["eval", "--task", answered(tmp_path, 6), "--endpoint", endpoint, "--tools", sandbox, "--run", "run"]
    command = [sys.executable, "-m", "orchestrator", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tools: python (native), 24 calls, 18 tool calls, 0 errors" in " ".join(done.stdout.split())
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["tasks"]["noise"]["metrics"][0]["value"] == 100.0
    shown = [line["tool"]["content"] for line in lines_of(tmp_path / "run") if "tool" in line]
    assert [len(content) for content in shown] == [1] * 18


def test_kills_change_no_byte(tmp_path: Path, endpoint: str) -> None:
    options = {"tasks": answered(tmp_path, 12), "endpoint": endpoint, "tools": []}
    arguments = [str(tmp_path / "killed"), "4", "3", json.dumps(options), json.dumps([SANDBOX])]
    command = [sys.executable, str(HERE / "killed_runs.py"), *arguments]
    killed = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (killed.returncode, killed.stdout) == (0, "4\n"), killed.stderr
    server = Server(tmp_path / "server", SANDBOX).start()
    try:
        evaluate(**options | {"tools": [f"grpc:{server.address}"]}, run=tmp_path / "whole")
    finally:
        server.kill()
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "whole")
    keys = [line["key"] for line in lines_of(tmp_path / "killed")]
    assert len(keys) == len(set(keys))


def test_deepeyesv2_runs_code_of_its_own_text(tmp_path: Path, endpoint: str, sandbox: str) -> None:
    run = tmp_path / "run"
    evaluate(answered(tmp_path, 4), endpoint=endpoint, tools=[sandbox], protocol="deepeyesv2", run=run, max_unparsed=1)
    lines = lines_of(run)
    shown = [line["tool"]["content"] for line in lines if "tool" in line]
    assert len(shown) == 12
    assert shown[0] == [{"text": "(56, 56)\n"}], "the image as it was sent"
    conversations = [line["request"]["messages"] for line in lines if line["turn"] == "call3"]
    texts = [part.get("text", "") for part in conversations[0][-1]["parts"]]
    assert texts[0] == "Code execution result:\nstdout:\n```\n\n```\n\nstderr:\n```\n\n```\n\nImages:\n"
    assert len(texts) == 2


def test_a_protocol_of_code_needs_the_sandbox(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(ConfigError, match="start `tool-server sandbox`, and give --tools grpc:HOST:PORT"):
        evaluate(task(tmp_path, 1), endpoint=endpoint, tools=["zoom"], protocol="deepeyesv2", run=tmp_path / "run")
