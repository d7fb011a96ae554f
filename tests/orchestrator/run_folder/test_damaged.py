"""A line of a run folder that was damaged after it was written: named, with what to do, and never waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server


def damage(path: Path, number: int, old: bytes, new: bytes) -> None:
    """Changes a line behind its head."""
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
    said = error_of(cluster.eval("run", [server], shared_scorer, code=2))
    assert f"{Path('run') / 'verdicts.jsonl'}, line 3: damaged" in said
    assert "delete the line" in said
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
    words = ("score", "run", "--scorer", shared_scorer.address)
    said = error_of(cluster.orchestrator(*words, code=2))
    assert "responses.jsonl" in said
    assert "delete the line" in said
    drop(run / "responses.jsonl", 5)
    cluster.eval("run", [cluster.servers[0]], shared_scorer)
    cluster.orchestrator(*words)
    assert cluster.results("run") == before
    assert cluster.calls().total() == 41
