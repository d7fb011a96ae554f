"""Tasks whose code runs text as Python, on a system that closes no cells: refused before anything is asked, unless the
user trusts their code.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_cluster import Server
from helpers.harness_rows import picture
from helpers.toy_harness import RUNS_TEXT, ToyHarness, write

from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.manifest import FOREIGN_METRICS
from scorer.metrics import FOREIGN

ROOT = Path(__file__).parents[3]
NOBODY = "127.0.0.1:9"
TRUST = "--trust-task-code"


@pytest.fixture
def toy(tmp_path: Path) -> ToyHarness:
    return ToyHarness(tmp_path).without_cells()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A model server whose answer is 3 where it runs as code."""
    program = str(ROOT / "tests" / "helpers" / "answering_server.py")
    server = Server(tmp_path / "model", ["env", "ANSWER=3 * len(str(1))", sys.executable, program]).start()
    yield server.address
    server.kill()


def run(toy: ToyHarness, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", *args]
    return subprocess.run(
        command, env=toy.environment, cwd=toy.data.parent, capture_output=True, text=True, check=False
    )


def options(toy: ToyHarness, task: str, address: str, *more: str) -> list[str]:
    return [
        *("eval", "--task", f"lm-eval:{task}", "--include-path", "tasks", "--data", str(toy.data)),
        *("--endpoint", address, "--patience", "30", *more),
    ]


def refused(done: subprocess.CompletedProcess[str], *says: str) -> None:
    """Asserts that a command was refused as a configuration, in one line."""
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for part in says:
        assert part in lines[0]


def test_it_is_refused_before_anything_is_asked(toy: ToyHarness, tmp_path: Path) -> None:
    says = (f"{toy.tasks}/{RUNS_TEXT}", "the model's answers would run as code", f"give {TRUST} to allow that")
    refused(run(toy, *options(toy, "computes", NOBODY)), *says)  # nobody is there, and nobody is looked for
    refused(run(toy, *options(toy, "computes", NOBODY, "--dry-run")), *says)
    suite = {
        "models": {"m": {"endpoint": NOBODY}},
        "tasks": ["lm-eval:computes"],
        "options": {"include_path": str(toy.tasks), "data": str(toy.data)},
    }
    (tmp_path / "night.yaml").write_text(json.dumps(suite))
    refused(run(toy, "eval", "--suite", "night.yaml"), *says)
    submit = ("submit", "--task", "lm-eval:computes", "--include-path", str(toy.tasks), "--overlay", "cpu-demo")
    refused(run(toy, *submit), *says)
    program = (
        "from orchestrator import ConfigError, evaluate\n"
        f"try: evaluate('lm-eval:computes', include_path={str(toy.tasks)!r}, data={str(toy.data)!r}, "
        f"endpoint='{NOBODY}')\n"
        "except ConfigError as error: print(error)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=toy.environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    for part in says:
        assert part in done.stdout
    assert not (tmp_path / "runs").exists()


def test_its_prompts_are_shown_since_there_is_no_answer_to_run(toy: ToyHarness) -> None:
    shutil.copytree(toy.tasks, toy.site / "lm_eval" / "tasks", dirs_exist_ok=True)
    done = run(toy, "prompts", "--task", "lm-eval:computes", "--data", str(toy.data))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["key"] for line in done.stdout.splitlines()] == [f"lm-eval:computes/{n}" for n in (0, 1)]


def test_who_trusts_it_finds_that_in_the_results(toy: ToyHarness, address: str, tmp_path: Path) -> None:
    done = run(toy, *options(toy, "computes", address, "--run", "run", TRUST))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["trust_task_code"] is True
    assert results["tasks"]["lm-eval:computes"]["metrics"][0]["value"] == 1.0  # the answer did run as code
    refused(run(toy, "score", "run", "--include-path", "tasks"), RUNS_TEXT, f"give {TRUST} to allow that")
    refused(run(toy, "score", "run", TRUST), f"was given by --include-path {toy.tasks}: give it again")
    again = run(toy, "score", "run", "--include-path", "tasks", TRUST)
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == results


def test_other_tasks_of_a_folder_need_no_trust(toy: ToyHarness, address: str, tmp_path: Path) -> None:
    done = run(toy, *options(toy, "compares", address, "--run", "run"))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["tasks"]["lm-eval:compares"]["counts"]["scored"] == 2
    assert "trust_task_code" not in results


def test_a_scorer_that_runs_already_decides_for_itself(toy: ToyHarness, address: str, tmp_path: Path) -> None:
    for flags, task, says in (
        ((), "compares", "start it with --foreign-tasks; no request was sent to the model"),
        (("--foreign-tasks",), "compares", "has no task 'compares'"),
        (
            ("--foreign-tasks", "--include-path", str(toy.tasks)),
            "computes",
            "start it with --trust-task-code to allow that; no request was sent to the model",
        ),
    ):
        variables = [f"{name}={toy.environment[name]}" for name in ("PYTHONPATH", "XDG_CACHE_HOME")]
        command = ["env", *variables, sys.executable, "-m", "scorer", "serve", *flags]
        server = Server(tmp_path / "scorer", command).start()
        try:
            done = run(toy, *options(toy, task, address, "--run", "run", "--scorer", server.address, TRUST))
        finally:
            server.kill()
        refused(done, says)
        assert not (tmp_path / "run" / "responses.jsonl").exists()
    done = run(toy, "score", "run", "--scorer", NOBODY, "--include-path", "tasks")
    assert (done.returncode, "give it to the `scorer serve` that --scorer names" in done.stderr) == (2, True)


def test_shards_are_merged_by_code_that_the_command_names(toy: ToyHarness, address: str, tmp_path: Path) -> None:
    for number in (0, 1):
        flags = ("--run", f"part{number}", "--shard", f"{number}/2", TRUST)
        assert run(toy, *options(toy, "computes", address, *flags)).returncode == 0
    refused(run(toy, "merge", "part0", "part1", "--run", "whole", "--include-path", "tasks"), RUNS_TEXT)
    done = run(toy, "merge", "part0", "part1", "--run", "whole", "--include-path", "tasks", TRUST)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "whole" / "results.json").read_text())
    assert (results["trust_task_code"], results["tasks"]["lm-eval:computes"]["counts"]["scored"]) == (True, 2)


def test_a_folder_of_an_older_run_names_no_code(toy: ToyHarness, address: str, tmp_path: Path) -> None:
    args = options(toy, "compares", address, "--run", "run")
    assert run(toy, *args).returncode == 0
    # As it was written when requests named the folders of tasks; by other code of the benchmark.
    include = {"include": [str(toy.tasks)]}
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["include_path"]
    manifest["benchmarks"] = {"lm-eval:compares": "0" * 64}
    for spec in manifest["metrics"]["lm-eval:compares"]:
        spec["params"] |= include
    path.write_text(json.dumps(manifest))
    log = tmp_path / "run" / "responses.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["scoring"]["params"] |= include
        del line["crc32"]
    log.write_bytes(b"".join(sealed(json.dumps(line).encode()) + b"\n" for line in lines))
    (tmp_path / "run" / "verdicts.jsonl").unlink()
    refused(run(toy, "score", "run"), f"was given by --include-path {toy.tasks}: give it again")
    resumed = run(toy, *args)
    assert resumed.returncode == 0, resumed.stderr
    done = run(toy, "score", "run", "--include-path", "tasks")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "results.json").read_text())["tasks"]["lm-eval:compares"]["counts"] == {
        **dict.fromkeys(("unparsed", "refused", "rejected", "unjudged", "failed"), 0),
        **{"planned": 2, "scored": 2},
    }


def test_vlmevalkits_own_evaluation_is_refused_where_its_code_runs_text(toy: ToyHarness, tmp_path: Path) -> None:
    package = {"__init__.py": "", "dataset/__init__.py": "from .smp import number", "dataset/smp.py": "number = eval"}
    write(toy.site / "vlmeval", package)
    image = base64.b64encode(picture(random.Random(0))["bytes"]).decode()
    table = tmp_path / "Mine.tsv"
    table.write_text(f"index\timage\tquestion\tanswer\tA\tB\n1\t{image}\twhich?\tA\tred\tgreen\n")
    args = ["eval", "--task", "vlmevalkit:Mine", "--data", str(table), "--endpoint", NOBODY, "--dry-run"]
    refusal = run(toy, *args, "--set", "metrics=vlmevalkit")
    refused(refusal, "task vlmevalkit:Mine", f"{toy.site}/vlmeval/dataset/smp.py:1 calls eval", f"give {TRUST}")
    assert run(toy, *args).returncode == 0  # by this project's rules none of its code runs


def test_metrics_that_run_code_of_others_are_the_scorers() -> None:
    assert FOREIGN.keys() == FOREIGN_METRICS
