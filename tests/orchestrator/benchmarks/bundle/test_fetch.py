"""Bundles: what was fetched is what runs, and nothing else."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from orchestrator.benchmarks.bundle import BundleError, resolve
from orchestrator.cli import main

TASK = "data: pairs.csv\nimage: picture\nquestion: question\noptions: [A, B]\nanswer: answer\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in arguments])


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "images").mkdir(parents=True)
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    (folder / "images" / "red.png").write_bytes(buffer.getvalue())
    (folder / "unnamed.txt").write_text("not a part of it")
    (folder / "pairs.csv").write_text("picture,question,A,B,answer\nimages/red.png,Colour?,red,blue,A\n")
    (folder / "pairs.yaml").write_text(TASK)
    return folder / "pairs.yaml"


@pytest.fixture
def bundle(task: Path, tmp_path: Path) -> Path:
    done = run("fetch", "--task", task, "--to", tmp_path / "bundle")
    assert done.exit_code == 0, done.output
    assert "pairs: pairs.csv, 2 files" in done.output
    return tmp_path / "bundle"


@pytest.mark.full
def test_a_bundle_runs_where_the_source_is_gone(task: Path, bundle: Path, tmp_path: Path) -> None:
    before = run("prompts", "--task", task).stdout
    for path in ("pairs.csv", "images"):
        (shutil.rmtree if path == "images" else Path.unlink)(task.parent / path)
    moved = bundle.rename(tmp_path / "moved")
    done = run("prompts", "--task", task, "--data", moved)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == before
    assert json.loads(before)["request"]["messages"][0]["parts"][0]["image"]["sha256"]
    done = run(
        "eval", "--task", task, "--data", f"pairs={moved}", "--run", tmp_path / "run", "--quiet", "--max-unparsed", "1"
    )
    assert done.exit_code == 0, done.stderr
    counts = json.loads((tmp_path / "run/results.json").read_text())["tasks"]["pairs"]["counts"]
    assert counts["planned"] == 1
    assert counts["rejected"] == counts["failed"] == 0


def test_bundle_json_says_what_there_is(bundle: Path) -> None:
    listed = json.loads((bundle / "bundle.json").read_text())
    assert listed["tasks"] == {"pairs": "pairs.csv"}
    assert set(listed["data"]["pairs.csv"]["files"]) == {"pairs.csv", "images/red.png"}


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("pairs.csv/pairs.csv", b"picture,question,A,B,answer\nimages/red.png,Other?,red,blue,A\n", "is not what was"),
        ("pairs.csv/images/red.png", None, "is missing"),
        ("pairs.csv/more.csv", b"x", "is not in bundle.json"),
        ("bundle.json", b"{", "cannot be read as a bundle"),
        ("bundle.json", b'{"format": 2, "tasks": {}, "data": {}}', "is of format 2"),
    ],
)
def test_what_was_not_fetched_is_an_error(
    task: Path, bundle: Path, file: str, change: bytes | None, message: str
) -> None:
    if change is None:
        (bundle / file).unlink()
    else:
        (bundle / file).write_bytes(change)
    done = run("prompts", "--task", task, "--data", bundle)
    assert done.exit_code == 2
    assert message in done.stderr
    assert str(bundle / file) in done.stderr


def test_a_task_that_is_not_in_the_bundle_is_said(bundle: Path) -> None:
    done = run("prompts", "--task", "vstar_bench", "--data", bundle)
    assert done.exit_code == 2
    assert "holds pairs and not vstar_bench" in done.stderr


def test_two_tasks_of_one_folder_share_it(tmp_path: Path, task: Path) -> None:
    folder = tmp_path / "vstar"
    folder.mkdir()
    rows = [
        {"text": "Colour? (A) red (B) blue", "label": "A", "category": c, "question_id": n, "image": "red.png"}
        for n, c in enumerate(("direct_attributes", "relative_position"))
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copy(task.parent / "images" / "red.png", folder)
    options = [word for name in ("vstar_bench", "vstar_bench_relative_position") for word in ("--task", name)]
    sources = [word for name in options[1::2] for word in ("--data", f"{name}={folder}")]
    done = run("fetch", *options, *sources, "--to", tmp_path / "both")
    assert done.exit_code == 0, done.output
    listed = json.loads((tmp_path / "both" / "bundle.json").read_text())
    assert list(listed["tasks"].values()) == ["vstar", "vstar"]
    assert len(run("prompts", *options, "--data", tmp_path / "both").stdout.splitlines()) == 3


def test_mistakes_leave_no_bundle(task: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for arguments, message in (
        (["--task", task, "--to", tmp_path / "full"], "not an empty folder"),
        (["--task", "no_such", "--to", tmp_path / "b"], "there is no task"),
        (["--task", task, "--data", "other=x", "--to", tmp_path / "b"], "give TASK=PATH"),
        (["--task", task, "--data", "pairs=none.csv", "--to", tmp_path / "b"], "no data at none.csv"),
    ):
        done = run("fetch", *arguments)
        assert done.exit_code == 2
        assert message in done.stderr
        assert not (tmp_path / "b" / "bundle.json").exists()


def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    """In a process of its own: the hub's client reads its address once."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hub = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        command = [sys.executable, "-m", "orchestrator", "fetch", "--task", "vstar_bench", "--to", str(tmp_path / "b")]
        environment = {**os.environ, "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Error: data set lmms-lab/vstar-bench cannot be fetched from the hub: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("entry", ["../../secret.csv", "/etc/hostname", "not_listed.csv"])
def test_an_entry_leads_out_of_no_bundle(bundle: Path, entry: str) -> None:
    listed = json.loads((bundle / "bundle.json").read_text())
    for held in listed["data"].values():
        held["entry"] = entry
    (bundle / "bundle.json").write_text(json.dumps(listed))
    with pytest.raises(BundleError, match="is none of the bundle's files; fetch the bundle again"):
        resolve(str(bundle), next(iter(listed["tasks"])))
