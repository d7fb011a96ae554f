"""Shards that do not fit together or have changed are refused; their failures stay failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Cluster, Server

from orchestrator.run_folder.log import RunLog

ROWS = ("--limit", "12")


@pytest.fixture
def parts(cluster: Cluster, shared_scorer: Server) -> list[Path]:
    server = cluster.model()
    for index in range(2):
        cluster.eval(f"part{index}", [server], shared_scorer, *ROWS, "--shard", f"{index}/2")
    return [cluster.folder / f"part{index}" for index in range(2)]


def merge(cluster: Cluster, scorer: Server, run: str = "merged", code: int = 0) -> str:
    arguments = ("merge", "part0", "part1", "--run", run, "--scorer", scorer.address)
    output = cluster.orchestrator(*arguments, code=code)
    assert "Traceback" not in output
    return output


def edited(part: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((part / "manifest.json").read_bytes())
    change(manifest)
    (part / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda of: of["rules"].update(choice="0"),
            "part1 and part0 were not scored alike: they differ in rules, 'choice'",
        ),
        (lambda of: of.update(judges=["openai:x"]), "were not scored alike: they differ in judges, 'openai:x'"),
        (lambda of: of["benchmarks"].update(toy="0"), "were not asked by the same code of benchmark 'toy'"),
        (lambda of: of.pop("planned"), "part1 is not complete"),
    ],
    ids=["rules", "judges", "benchmarks", "planned"],
)
def test_shards_that_do_not_fit_are_refused(
    cluster: Cluster, shared_scorer: Server, parts: list[Path], change: Callable[[dict[str, Any]], object], message: str
) -> None:
    edited(parts[1], change)
    assert message in merge(cluster, shared_scorer, code=2)
    assert not (cluster.folder / "merged" / "manifest.json").exists()


@pytest.mark.full
def test_a_shard_that_was_resumed_under_other_code_fits_one_of_either(
    cluster: Cluster, shared_scorer: Server, parts: list[Path]
) -> None:
    code = json.loads((parts[0] / "manifest.json").read_bytes())["benchmarks"]
    edited(parts[1], lambda of: of.update(benchmarks={"toy": "0"}, benchmarks_resumed=code))
    merge(cluster, shared_scorer)
    assert cluster.counts("merged")["scored"] == 12


@pytest.mark.full
def test_a_shard_that_is_written_or_not_complete_again_is_refused(
    cluster: Cluster, shared_scorer: Server, parts: list[Path]
) -> None:
    log = RunLog(parts[1])
    assert "part1 is being written by another process (pid" in merge(cluster, shared_scorer, code=3)
    log.close()
    (parts[1] / "results.json").unlink()  # as a resume does that was killed
    assert "part1 is not complete: run its command again first" in merge(cluster, shared_scorer, code=2)


def test_a_damaged_verdict_is_named_in_its_shard(cluster: Cluster, shared_scorer: Server, parts: list[Path]) -> None:
    path = parts[1] / "verdicts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"labels"', b'"lab\0\0\0"', 1))
    assert f"{Path('part1') / 'verdicts.jsonl'}, line 1: damaged" in merge(cluster, shared_scorer, code=2)


@pytest.mark.full
def test_failed_items_end_it_as_they_end_eval(cluster: Cluster, shared_scorer: Server) -> None:
    server = cluster.model("--broken", "8")
    for index in range(2):
        arguments = cluster.words(f"part{index}", [server], shared_scorer, *ROWS, "--shard", f"{index}/2")
        cluster.start(*arguments).wait(timeout=300)
    output = merge(cluster, shared_scorer, code=3)
    assert "2 items failed after retries: run the shards' commands again" in output
    assert cluster.counts("merged")["failed"] == 2
    server.mend("--broken", "8")
    for index in range(2):
        cluster.eval(f"part{index}", [server], shared_scorer, *ROWS, "--shard", f"{index}/2")
    assert "not of these shards as they are now: give --run a new folder" in merge(cluster, shared_scorer, code=2)
    merge(cluster, shared_scorer, "again")
    cluster.eval("whole", [server], shared_scorer, *ROWS)
    assert cluster.results("again") == cluster.results("whole")


def test_a_shard_that_lacks_a_verdict_is_refused(cluster: Cluster, shared_scorer: Server, parts: list[Path]) -> None:
    path = parts[1] / "verdicts.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    count = len(lines)
    output = merge(cluster, shared_scorer, code=2)
    assert f"a gap: part1 settles {count - 1} of {count} items of toy" in output
    assert not (cluster.folder / "merged" / "manifest.json").exists()
