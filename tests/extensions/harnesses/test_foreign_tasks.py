"""Tasks of other harnesses in a scorer: whose code runs is said where it is started, and by no request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from helpers.engine_cluster import Server
from helpers.scorer_asking import spec
from helpers.toy_harness import RUNS_TEXT, ToyHarness, write

from lyncean.rpc import dial
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from lyncean_harnesses.library.values import encode

OFF = "tasks of other harnesses are off in this scorer: start it with --foreign-tasks"
TRUST = "start it with --trust-task-code to allow that"
FOLDERS = "folders with tasks are those of the scorer's own --include-path"


@pytest.fixture
def toy(tmp_path: Path) -> ToyHarness:
    return ToyHarness(tmp_path)


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    """A file that the answer of `item` writes where it runs as code."""
    return tmp_path / "proof"


def item(task: str, proof: Path, **more: Any) -> pb.ScoreRequest:
    text = f"3 * len(str(__import__('pathlib').Path({str(proof)!r}).write_text('x')))"
    request = pb.ScoreRequest(key=f"{task}/0", rule="harness_task", text=text)
    learned = json.dumps({"features": [], "multiple_input": 0, "multiple_target": 0})
    request.params.update({"task": task, "doc": encode({"answer": "3"}), "index": 0, "learned": learned, **more})
    return request


@contextmanager
def serving(toy: ToyHarness, folder: Path, *flags: str) -> Iterator[str]:
    """Starts `scorer serve` where the stand-in for a harness is installed; yields its address."""
    variables = [f"{name}={toy.environment[name]}" for name in ("PYTHONPATH", "HF_HOME", "XDG_CACHE_HOME")]
    server = Server(folder / "scorer", ["env", *variables, sys.executable, "-m", "scorer", "serve", *flags]).start()
    try:
        yield server.address
    finally:
        server.kill()


async def score(address: str, *items: pb.ScoreRequest, metrics: list[pb.MetricSpec] | None = None) -> list[pb.Verdict]:
    async def requests() -> AsyncIterator[pb.ScorerServiceScoreRequest]:
        yield pb.ScorerServiceScoreRequest(items=items, metrics=metrics or [])

    async with dial(address) as channel:
        stub = scorer_pb2_grpc.ScorerServiceStub(channel)
        return [verdict async for reply in stub.Score(requests()) for verdict in reply.verdicts]


async def refusal(address: str, *items: pb.ScoreRequest, metrics: list[pb.MetricSpec] | None = None) -> str:
    """Returns why a scorer refuses items or metrics."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await score(address, *items, metrics=metrics)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return str(caught.value.details())


def metric(kind: str, **params: Any) -> pb.MetricSpec:
    wanted = spec("right", kind)
    wanted.params.update({"metric": "right", **params})
    return wanted


async def test_a_plain_scorer_imports_no_task_and_no_folder_that_a_request_names(
    toy: ToyHarness, proof: Path, tmp_path: Path
) -> None:
    imported = tmp_path / "imported"
    write(toy.tasks, {"plain.py": f"open({str(imported)!r}, 'w').write('x')\ndef results(doc, answers): return {{}}\n"})
    with serving(toy, tmp_path) as address:
        assert (await refusal(address, item("lm-eval:compares", proof))).endswith(OFF)
        named = await refusal(address, item("lm-eval:compares", proof, include=[str(toy.tasks)]))
        assert named.endswith(FOLDERS)
        for wanted in (
            metric("harness_task", task="lm-eval:compares"),
            metric("harness_group", group="lm-eval:compares"),
            metric("vlmevalkit", dataset="X"),
        ):
            assert (await refusal(address, metrics=[wanted])).endswith(OFF)
    assert not imported.exists()


async def test_folders_are_those_of_its_own_include_path(toy: ToyHarness, proof: Path, tmp_path: Path) -> None:
    with serving(toy, tmp_path, "--foreign-tasks") as address:
        absent = await refusal(address, item("lm-eval:compares", proof))
        assert absent.endswith("has no task 'compares': give the folder that has it by --include-path")
        include = {"include": [str(toy.tasks)]}
        assert (await refusal(address, item("lm-eval:compares", proof, **include))).endswith(FOLDERS)
        for wanted in (
            metric("harness_task", task="lm-eval:compares", **include),
            metric("harness_group", group="lm-eval:compares", **include),
        ):
            assert (await refusal(address, metrics=[wanted])).endswith(FOLDERS)
    with serving(toy, tmp_path, "--foreign-tasks", "--include-path", str(toy.tasks)) as address:
        right = item("lm-eval:compares", proof)
        right.text = "3"
        (verdict,) = await score(address, right)
        assert (verdict.outcome, verdict.score) == ("scored", 1.0)


async def test_code_that_runs_answers_is_refused_without_cells_unless_it_is_trusted(
    toy: ToyHarness, proof: Path, tmp_path: Path
) -> None:
    toy.without_cells()
    flags = ("--foreign-tasks", "--include-path", str(toy.tasks))
    with serving(toy, tmp_path, *flags) as address:
        # A run tries its metrics on nothing first: it is refused before anything is asked.
        for error in (
            await refusal(address, item("lm-eval:computes", proof)),
            await refusal(address, metrics=[metric("harness_task", task="lm-eval:computes")]),
        ):
            assert f"{toy.tasks}/{RUNS_TEXT}" in error
            assert "a model's answers would run as code in this scorer" in error
            assert error.endswith(TRUST)
    assert not proof.exists()
    with serving(toy, tmp_path, *flags, "--trust-task-code") as address:
        assert "one that this system lacks: not on this system" in (tmp_path / "scorer" / "output").read_text()
        computed = item("lm-eval:computes", proof)
        computed.text = "3 * len(str(1))"
        (verdict,) = await score(address, computed, metrics=[metric("harness_task", task="lm-eval:computes")])
        assert (verdict.outcome, verdict.score) == ("scored", 1.0)  # the answer does run as code


async def test_code_that_runs_answers_scores_in_a_cell_without_trust(
    toy: ToyHarness, proof: Path, tmp_path: Path
) -> None:
    with serving(toy, tmp_path, "--foreign-tasks", "--include-path", str(toy.tasks)) as address:
        assert "cell: landlock, seccomp, rlimits" in (tmp_path / "scorer" / "output").read_text()
        right = item("lm-eval:computes", proof)
        right.key, right.text = "lm-eval:computes/1", "1 + 2"
        wanted = metric("harness_task", task="lm-eval:computes")
        first, second = await score(address, item("lm-eval:computes", proof), right, metrics=[wanted])
    verdicts = {verdict.key[-1]: verdict for verdict in (first, second)}
    assert (verdicts["0"].reason, verdicts["0"].detail[:6], verdicts["1"].score) == ("task_limit", "file: ", 1.0)
    assert not proof.exists()


def test_scoring_a_file_is_no_way_around_it(toy: ToyHarness, proof: Path, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    toy.without_cells()

    def command(*flags: str, **more: Any) -> subprocess.CompletedProcess[str]:
        line = MessageToDict(item("lm-eval:computes", proof, **more), preserving_proto_field_name=True)
        file.write_text(json.dumps(line) + "\n")
        argv = [sys.executable, "-m", "scorer", "score", str(file), *flags]
        return subprocess.run(argv, env=toy.environment, capture_output=True, text=True, check=False)

    include = ("--foreign-tasks", "--include-path", str(toy.tasks))
    for flags, more, says in (
        ((), {}, OFF),
        (include, {}, TRUST),
        (include, {"include": [str(toy.tasks)]}, FOLDERS),
        (("--trust-task-code",), {}, "--trust-task-code is for tasks of other harnesses, which are off"),
        (("--include-path", str(toy.tasks)), {}, "which are off: give --foreign-tasks as well"),
        (("--foreign-tasks", "--include-path", str(tmp_path / "absent")), {}, "does not exist"),
    ):
        done = command(*flags, **more)
        assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not proof.exists()
    done = command(*include, "--trust-task-code")
    assert done.returncode == 0, done.stderr
    # Of what this system has every layer is in force all the same.
    assert json.loads(done.stdout)["reason"] == "task_limit"
    assert not proof.exists()


def test_metrics_of_a_file_without_items_are_refused_in_one_line(toy: ToyHarness, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    specs = [{"name": "m", "metric": "harness_task", "params": {"task": "lm-eval:absent", "metric": "right"}}]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    args = ["score", str(tmp_path / "none.jsonl"), "--metrics", str(tmp_path / "specs.json"), "--foreign-tasks"]
    command = [sys.executable, "-m", "scorer", *args]
    done = subprocess.run(command, env=toy.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "metric 'm': lm-evaluation-harness 0 has no task 'absent'" in done.stderr
