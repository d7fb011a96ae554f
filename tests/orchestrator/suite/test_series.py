"""The series in a suite's folder: checkpoints by step, with their cells."""

from __future__ import annotations

from pathlib import Path

from orchestrator.suite import record as records
from orchestrator.suite.record import Record, RecordedCell
from orchestrator.suite.series import checkpoints


def test_checkpoints_stand_by_step_and_fixed_models_apart(tmp_path: Path) -> None:
    cells = [RecordedCell("base-toy", "base", "", ["toy"])]
    for step in (300, 100):
        for task in ("toy", "marvel"):
            name = f"step_{step}"
            cells.append(RecordedCell(f"{name}-{task}", name, "", [task], step=step, checkpoint=f"/ckpt/{name}"))
    Record("night", "previous", "no_regression", cells).save(tmp_path)
    ordered = checkpoints(records.read(tmp_path))
    assert [(one.name, one.step, one.path) for one in ordered] == [
        ("step_100", 100, "/ckpt/step_100"),
        ("step_300", 300, "/ckpt/step_300"),
    ]
    assert [cell.name for cell in ordered[1].cells] == ["step_300-toy", "step_300-marvel"]


def test_a_record_from_before_series_is_read(tmp_path: Path) -> None:
    (tmp_path / records.FILE).write_text(
        '{"suite": "night", "baseline": "", "gate": "", "cells": [{"name": "a-toy", "model": "a", "variant": "", '
        '"tasks": ["toy"], "request": "", "exit_code": 0, "error": ""}]}'
    )
    assert checkpoints(records.read(tmp_path)) == []
