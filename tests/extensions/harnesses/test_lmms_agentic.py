"""Agentic tasks of lmms-eval: asked by our engine, each metric is that of its own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import orjson
import pytest
from helpers import harness_runs
from helpers.engine_cluster import HERE, Server

from orchestrator import evaluate
from orchestrator.errors import ConfigError

ABSENT = importlib.util.find_spec("lmms_eval") is None
pytestmark = [
    pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'"),
    pytest.mark.weekly,
]

TASKS = {"vending_bench2": "vending_bench2", "tau2_bench_telecom": "tau2_telecom"}
MANNERS = ("thorough", "stubborn", "silent", "unknown", "plain")


def rows(name: str, manners: tuple[str, ...]) -> datasets.Dataset:
    """Returns the task's own rows, one for each manner, which their questions name."""
    from lyncean_harnesses.library.lmms_eval import LIBRARY

    file = Path(LIBRARY.folder()) / name.removesuffix("_telecom") / "data" / f"{TASKS[name]}.jsonl"
    documents = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    records = (documents[number % len(documents)] | {"id": manner} for number, manner in enumerate(manners))
    return datasets.Dataset.from_list(
        [row | {"user_query": f"{row['user_query']} manner {row['id']}"} for row in records]
    )


@pytest.fixture(scope="module")
def operating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("model"), [sys.executable, str(HERE / "operating_server.py")]).start()
    yield server.address
    server.kill()


def lines(run: Path, file: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (run / file).read_bytes().splitlines()]


def test_agentic_tasks_give_the_metrics_of_lmms_eval(operating: str, scorer: str, tmp_path: Path) -> None:
    from helpers import harness_theirs

    splits = {name: datasets.DatasetDict({"test": rows(name, MANNERS)}) for name in TASKS}
    for name, dataset in splits.items():
        dataset.save_to_disk(tmp_path / name)
    paths = {f"lmms:{name}": str(tmp_path / name) for name in TASKS}
    options = {"data": paths, "method": "generate", "endpoint": operating, "scorer": scorer}
    ours = evaluate(list(paths), **options, run=tmp_path / "run")
    reference = harness_theirs.figures(splits, operating, str(tmp_path), simple=True)
    assert harness_runs.compare(ours, reference, "lmms") == 13
    calls = [line["key"] for line in lines(tmp_path / "run", "responses.jsonl") if ":call" in line["key"][5:]]
    # thorough: 2 calls; stubborn: up to the task's bound; silent and unknown: 2; plain: 1
    assert len(calls) == (2 + 10 + 2 + 2 + 1) + (2 + 8 + 2 + 2 + 1)

    # A process that ended in between goes on there, to the same results.
    results = (tmp_path / "run" / "results.json").read_bytes()
    for file in ("responses.jsonl", "verdicts.jsonl"):
        kept = (tmp_path / "run" / file).read_bytes().splitlines(keepends=True)
        (tmp_path / "run" / file).write_bytes(b"".join(line for line in kept if b":call" in line[:60]))
    (tmp_path / "run" / "results.json").unlink()
    evaluate(list(paths), **options, run=tmp_path / "run")
    assert (tmp_path / "run" / "results.json").read_bytes() == results
    again = [line["key"] for line in lines(tmp_path / "run", "responses.jsonl") if ":call" in line["key"][5:]]
    assert sorted(again) == sorted(calls)


def test_an_answer_on_which_the_tasks_code_fails_is_unparsed(operating: str, scorer: str, tmp_path: Path) -> None:
    dataset = datasets.DatasetDict({"test": rows("vending_bench2", ("damaged", "thorough"))})
    dataset.save_to_disk(tmp_path / "data")
    options = {"data": tmp_path / "data", "endpoint": operating, "scorer": scorer, "max_unparsed": 1}
    evaluate("lmms:vending_bench2", **options, run=tmp_path / "run")
    damaged, thorough = sorted(lines(tmp_path / "run", "verdicts.jsonl"), key=lambda line: line["key"])
    assert (damaged["outcome"], damaged["reason"]) == ("unparsed", "task_failed")
    assert "has no attribute 'get'" in damaged["detail"]
    assert thorough["outcome"] == "scored"
    with pytest.raises(ConfigError, match="asks in rounds of its own: leave out --tools"):
        evaluate("lmms:vending_bench2", **options, run=tmp_path / "tools", tools="zoom", protocol="deepeyes")
