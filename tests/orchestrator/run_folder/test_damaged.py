"""A line of a run folder that was damaged after it was written: named, with what to do, and never waited for."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server

from orchestrator.run_folder import ManifestError, read_manifest


def damage(path: Path, number: int, old: bytes, new: bytes) -> None:
    """Replaces a part of one line, after its head."""
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[number - 1].count(old) == 1
    lines[number - 1] = lines[number - 1].replace(old, new)
    path.write_bytes(b"".join(lines))


def drop(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))


def error_of(output: str) -> str:
    """Returns the one line of an error; a traceback has more."""
    assert "Traceback" not in output
    (line,) = [line for line in output.splitlines() if line.startswith("Error: ")]
    return line


@pytest.fixture
def run(cluster: Cluster, shared_scorer: Server) -> Path:
    cluster.eval("run", [cluster.model()], shared_scorer)
    return cluster.folder / "run"


def test_a_damaged_verdict_ends_the_run_and_names_the_line(cluster: Cluster, shared_scorer: Server, run: Path) -> None:
    before = cluster.results("run")
    damage(run / "verdicts.jsonl", 3, b'"labels"', b'"lab\0\0\0"')
    server = cluster.servers[0]
    error = error_of(cluster.eval("run", [server], shared_scorer, code=2))
    assert f"{Path('run') / 'verdicts.jsonl'}, line 3: damaged" in error
    assert "delete the line" in error
    drop(run / "verdicts.jsonl", 3)
    cluster.eval("run", [server], shared_scorer)
    assert cluster.results("run") == before
    assert set(cluster.calls().values()) == {1}


@pytest.mark.parametrize("other", [b'"resp\0\0\0e"', b'"responxx"'], ids=["no JSON", "without its answer"])
def test_a_damaged_answer_is_named_when_it_is_scored_again(
    cluster: Cluster, shared_scorer: Server, run: Path, other: bytes
) -> None:
    before = cluster.results("run")
    damage(run / "responses.jsonl", 5, b'"response"', other)
    arguments = ("score", "run", "--scorer", shared_scorer.address)
    error = error_of(cluster.orchestrator(*arguments, code=2))
    assert "responses.jsonl" in error
    assert "delete the line" in error
    drop(run / "responses.jsonl", 5)
    cluster.eval("run", [cluster.servers[0]], shared_scorer)
    cluster.orchestrator(*arguments)
    assert cluster.results("run") == before
    assert cluster.calls().total() == 41


def test_all_damaged_lines_are_named_at_once_with_the_command_that_deletes_them(
    cluster: Cluster, shared_scorer: Server, run: Path
) -> None:
    before = cluster.results("run")
    for number in (2, 5, 6, 7, 30):
        damage(run / "responses.jsonl", number, b'"response"', b'"responxx"')
    error = error_of(cluster.orchestrator("score", "run", "--scorer", shared_scorer.address, code=2))
    assert "responses.jsonl, line 2: damaged" in error
    assert "as are 4 lines after it" in error
    command = error.partition("(sed ")[2].partition(")")[0]
    subprocess.run(["sed", *shlex.split(command)], cwd=cluster.folder, check=True)
    cluster.eval("run", [cluster.servers[0]], shared_scorer)
    assert cluster.results("run") == before
    assert cluster.calls().total() == 45


@pytest.mark.parametrize(("field", "kind"), [("replicas", "a list"), ("metrics", "an object"), ("command", "a text")])
def test_a_field_of_a_manifest_of_another_type_is_named(run: Path, field: str, kind: str) -> None:
    file = run / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: None}))
    with pytest.raises(ManifestError, match=f"{field} is null, not {kind}"):
        read_manifest(run)
