"""The commands of README.md, CONTRIBUTING.md and docs/evaluate-a-model.md, typed into a shell as they stand there.

What a test cannot have (a checkpoint of seven billion weights, a cluster's names) is replaced, and rows are few.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.commands import orchestrator
from helpers.engine_cluster import Server, environment
from helpers.page_commands import PAGES, commands, make_commands
from helpers.page_typist import Typist

from orchestrator.benchmarks.marvel.benchmark import BENCHMARK

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = list(islice(BENCHMARK.synthetic("marvel", 0), 2))
    table = [{**row.fields, "image": {"bytes": row.image("image"), "path": None}} for row in rows]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "marvel.parquet")
    return tmp_path


def type_in(
    text: str, folder: Path, model: Server, scorer: Server, drawn: str = "--model demo:hash", *, in_shell: bool = False
) -> str:
    """Types it into a shell if told to, or if it is more than commands of ours; returns what it printed."""
    for written, here in {
        "Qwen/Qwen2.5-VL-7B-Instruct": "demo:hash",
        "model:50051": model.address,
        "models.svc:50051": model.address,
        "scorer.svc:50052": scorer.address,
        "--synthetic ": f"--synthetic --limit 6 {drawn} ",
        "--limit 20": "",
    }.items():
        text = text.replace(written, here)
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    if not in_shell and all(args[:1] == ["orchestrator"] for args in lines):
        return "".join(orchestrator(*args[1:], folder=folder) for args in lines)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euc", text]
    done = subprocess.run(
        command, cwd=folder, env={**environment(), "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout


def planned(run: Path) -> int:
    counts: dict[str, int] = json.loads((run / "results.json").read_text())["tasks"]["marvel"]["counts"]
    assert counts["failed"] == 0
    return counts["planned"]


def test_readme(demo: Server, shared_scorer: Server, folder: Path) -> None:
    (evaluations,) = (block for block in blocks("README.md") if "orchestrator eval" in block)
    assert len(evaluations.splitlines()) == 2
    type_in(evaluations, folder, demo, shared_scorer, in_shell=True)
    # The server is what the first command started, so the second finds the run complete.
    assert [planned(run) for run in (folder / "runs").iterdir()] == [10]


@pytest.mark.full
@pytest.mark.timeout(900)  # an installation takes minutes where much else runs
@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_the_wheel_in_an_environment_of_its_own(tmp_path: Path) -> None:
    (built,) = make_commands("make dist")
    wheels, here = tmp_path / "wheels", tmp_path / "installed"
    build = built.replace(".venv/bin/python", sys.executable).replace(" dist ", f" {wheels} ")
    subprocess.run(build.split(), cwd=ROOT, check=True)
    (wheel,) = wheels.iterdir()
    (named,) = {word for line in commands(ROOT / "README.md") for word in re.findall(r"dist/([\w.-]+\.whl)", line)}
    assert wheel.name == named
    subprocess.run([sys.executable, "-m", "venv", str(here)], check=True)
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--constraint",
        str(ROOT / "constraints.txt"),
        str(wheel),
    ]
    subprocess.run([str(here / "bin/python"), *install], check=True)
    command = [str(here / "bin/orchestrator"), "eval", "--task", "marvel", "--synthetic", "--limit", "2"]
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def typed(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)

    done = typed("--model", "demo:hash", "--run", "run")
    assert done.returncode == 0, done.stderr
    assert planned(tmp_path / "run") == 10
    assert (tmp_path / "run" / "report.html").is_file()
    missing = typed("--run", "other")
    assert missing.returncode == 2
    assert "pip install 'lyncean[transformers]'" in missing.stderr


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make(demo: Server, shared_scorer: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed_lines = [line for page in ("README.md", "CONTRIBUTING.md") for line in commands(ROOT / page)]
    typed = [line for line in typed_lines if "make " in line]
    runs = {line.split()[1]: make_commands(line) for line in typed}
    assert {"setup", "demo", "test", "check", "bench"} <= runs.keys()
    assert runs["setup"] == []
    mentioned = [line for page in PAGES for line in re.findall(r"`(make \w[^`\n]*)`", page.read_text(encoding="utf-8"))]
    assert all(make_commands(line) for line in mentioned)
    *runs["demo"], last = runs["demo"]
    assert all(line.startswith(".venv/bin/") for lines in runs.values() for line in lines)
    (next_command,) = re.findall(r'echo "next: \.venv/bin/(.*)"', last)
    assert next_command in {line.partition("#")[0].strip() for line in typed_lines}
    monkeypatch.chdir(tmp_path)
    typist = Typist(tmp_path, demo, shared_scorer, {".venv/bin/": ""})
    for line in runs["demo"]:
        typist.type(line)
    assert {run.name for run in (tmp_path / "runs").iterdir()} == {"demo", "demo-blind"}
    assert all((run / "report.html").is_file() for run in (tmp_path / "runs").iterdir())


@pytest.mark.full
def test_evaluate_a_model(demo: Server, shared_scorer: Server, folder: Path) -> None:
    evaluations, options, settings, reasoned, stopped, again, shards = blocks("docs/evaluate-a-model.md")
    printed = type_in(evaluations, folder, demo, shared_scorer)
    assert "reform" in printed
    runs = sorted((folder / "runs").iterdir())
    assert sorted(planned(run) for run in runs) == [10, 30]
    assert "20 planned" in type_in(options, folder, demo, shared_scorer)
    printed = type_in(settings, folder, demo, shared_scorer)
    assert "not the benchmark's own decoding: max_output_tokens=64" in printed
    assert "answer likelihood-after-reasoning" in type_in(reasoned, folder, demo, shared_scorer)
    printed = " ".join(type_in(stopped, folder, demo, shared_scorer).split())
    assert "vstar_bench stopped early after" in printed
    assert "of 40 samples" in printed
    assert (folder / "quick" / "results.json").exists()
    assert "vstar_bench asked a random 32 of 40 samples; accuracy of all 40" in printed
    scorer = f"--scorer {shared_scorer.address}"
    addresses = f"--endpoint {demo.address} {scorer}"
    first = "orchestrator eval --task vstar_bench --synthetic --run RUN\n"
    again = again.replace("score RUN", f"score RUN {scorer}")
    type_in(first + again, folder, demo, shared_scorer, addresses)
    assert (folder / "RUN" / "parity" / "results.json").exists()
    type_in(shards.replace("--run whole", f"--run whole {scorer}"), folder, demo, shared_scorer, addresses)
    assert planned(folder / "whole") == 30
