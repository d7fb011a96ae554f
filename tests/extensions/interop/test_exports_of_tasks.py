"""Every export of a run of all tasks, read back by the format's own reader or validator."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Server

from orchestrator.cli import main
from orchestrator.extensions import EXPORTS

HERE = Path(__file__).parents[2] / "helpers"
SERVICES = {"opentelemetry", "wandb", "mlflow"}  # each has a test of its own


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("drawer"), [sys.executable, str(HERE / "drawing_server.py")]).start()
    yield server
    server.kill()


@pytest.mark.weekly
def test_each_export_of_each_task_is_valid(model: Server, shared_scorer: Server, tmp_path: Path) -> None:
    listed = json.loads(CliRunner().invoke(main, ["tasks", "--json"]).output)["tasks"]
    tasks = tuple(task["task"] for task in listed)
    run = tmp_path / "run"
    options = [word for task in tasks for word in ("--task", task)]
    addresses = ["--endpoint", model.address, "--scorer", shared_scorer.address]
    done = CliRunner().invoke(main, ["eval", *options, "--synthetic", "--limit", "1", *addresses, "--run", str(run)])
    assert (run / "results.json").exists(), done.output
    keys = {line["key"] for line in map(json.loads, (run / "responses.jsonl").read_text().splitlines())}
    assert {key.partition("/")[0] for key in keys} == set(tasks)
    written = {name: tmp_path / name for name in EXPORTS.ours() if name not in SERVICES}
    for name, path in written.items():
        more = ["--about", "model=owner/drawer"] if name == "every-eval-ever" else []
        if name == "inspect":
            pytest.importorskip("inspect_ai.log")
        exported = CliRunner().invoke(main, ["export", str(run), "--format", name, "--output", str(path), *more])
        if name == "eval-results":  # these are no results of the benchmarks
            assert (exported.exit_code, path.exists()) == (2, False)
            assert "synthetic data" in exported.output
        else:
            assert exported.exit_code == 0, (name, exported.output)
    assert all(task in written["model-card"].read_text() for task in tasks)
    assert set(json.loads(written["json"].read_text())[0]["results"]["tasks"]) == set(tasks)
    latex = written["latex"].read_text()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") > 0
    with written["csv"].open(encoding="utf-8", newline="") as lines:
        rows = [row["key"] for row in csv.DictReader(lines)]
    assert pq.read_table(written["parquet"]).column("key").to_pylist() == rows
    assert set(rows) <= keys
    suites = ElementTree.parse(written["junit"]).getroot()  # noqa: S314
    assert [case.get("name") for case in suites.iter("testcase")] == rows
    results = json.loads(next(written["lmms-eval"].rglob("*_results.json")).read_text())
    assert set(results["results"]) == set(tasks)
    _inspect(written["inspect"], tasks)
    _every_eval_ever(written["every-eval-ever"], tasks)


def _inspect(folder: Path, tasks: tuple[str, ...]) -> None:
    from inspect_ai.log import list_eval_logs, read_eval_log

    logs = [read_eval_log(log_file) for log_file in list_eval_logs(str(folder))]
    assert {log.eval.task for log in logs} == set(tasks)
    assert {log.status for log in logs} == {"success"}
    assert all(log.samples for log in logs)


def _every_eval_ever(folder: Path, tasks: tuple[str, ...]) -> None:
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json*"))
    assert len(files) == 2 * len(tasks)
    if subprocess.run([sys.executable, "-c", "import every_eval_ever"], capture_output=True, check=False).returncode:
        return  # its validator needs Python 3.12
    check = [sys.executable, "-m", "every_eval_ever.validator.validate", "--format", "json", *files]
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
