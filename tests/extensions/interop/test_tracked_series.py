"""A training's curve in Weights & Biases and MLflow, read back from their own files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers.series_runs import series

from orchestrator.cli import main
from orchestrator.compare.curve import curves
from orchestrator.suite import training

SKILLS = (0.2, 0.5, 0.8, 0.4)


def exported(folder: Path, name: str) -> Result:
    result = CliRunner().invoke(main, ["export", str(folder), "--format", name])
    assert result.exit_code == 0, result.output
    return result


def curve_of(folder: Path) -> list[tuple[int, float]]:
    """The steps and values that the page draws."""
    (curve,) = curves([training.read(folder)])
    return [(point.step, point.metric.value or 0.0) for point in curve.lines[0].known if point.metric]


def records(data: bytes) -> Iterator[bytes]:
    """The records of an offline file of Weights & Biases, which has LevelDB's log format after seven bytes."""
    block, header, last = 32_768, 7, (1, 4)
    at, record = header, b""
    while at + header <= len(data):
        if block - at % block < header:
            at += block - at % block
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + header : at + header + length]
        at += header + length
        if kind in last:
            yield record
            record = b""


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The history in such a file."""
    from wandb.proto import wandb_internal_pb2

    rows = []
    for data in records(path.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        if record.HasField("history"):
            items = ((item.key or "/".join(item.nested_key), item.value_json) for item in record.history.item)
            rows.append({key: json.loads(value) for key, value in items})
    return rows


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in (("WANDB_MODE", "offline"), ("WANDB_DIR", str(tmp_path)), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    wandb = pytest.importorskip("wandb", reason="pip install 'lyncean[wandb]'")
    wandb.teardown()  # it keeps the folder of its first use in a process
    yield wandb
    wandb.teardown()


def test_wandb_has_the_history(offline: Any, tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", SKILLS, begun=1)
    exported(folder, "wandb")
    offline.teardown()  # as the end of a process: writes what is left
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    rows = rows_of(path)
    assert [(row["train/global_step"], row["marvel/accuracy"]) for row in rows] == curve_of(folder)
    assert [row["_step"] for row in rows] == [100, 200, 300]
    assert {row["items/planned"] for row in rows} == {40.0}


def test_in_the_run_of_the_training_the_curve_stands_by_its_step(offline: Any, tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", SKILLS)
    with offline.init(id="training") as tracked:
        for step in range(0, 401, 50):
            tracked.log({"train/loss": 1 / (1 + step), "train/global_step": step})
        tracked.log({"train/loss": 0.0}, step=10_000)  # beyond every checkpoint's step
        exported(folder, "wandb")
    offline.teardown()
    (path,) = tmp_path.glob("wandb/offline-run-*-training/*.wandb")
    rows = [row for row in rows_of(path) if "marvel/accuracy" in row]
    assert [(row["train/global_step"], row["marvel/accuracy"]) for row in rows] == curve_of(folder)


def test_mlflow_has_the_history_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'lyncean[mlflow]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the export leaves it set
    mlflow.set_tracking_uri(None)
    folder = series(tmp_path / "warm", SKILLS, begun=1)
    run_id = exported(folder, "mlflow").output.split()[-1]
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    series(tmp_path / "warm", SKILLS)
    assert exported(folder, "mlflow").output.split()[-1] == run_id
    history = mlflow.MlflowClient().get_metric_history(run_id, "marvel/accuracy")
    assert [(point.step, point.value) for point in history] == curve_of(folder)
    assert len(history) == 4


def test_formats_of_runs_do_not_take_checkpoints(tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", (0.5,))
    result = CliRunner().invoke(main, ["export", str(folder), "--format", "md"])
    assert result.exit_code == 2
    assert "is a suite with checkpoints: --format md takes the runs in it" in result.output
