"""A series: the checkpoints of one training, each a model of a suite, in the order of their steps.

A series has no record of its own: it is a suite's folder (`suite.json`, `leaderboard.json`, a run folder for each
cell). The cells of a checkpoint are `RecordedCell`s with three more fields:

    {"name": "step_200-vstar_bench", "model": "step_200", "variant": "", "tasks": ["vstar_bench"],
     "request": "<sha256>", "exit_code": 0, "error": "",
     "step": 200, "checkpoint": "/data/ckpt/step_200", "fingerprint": "<sha256>"}

- `model` is the name of the checkpoint's folder; a fixed model of the suite (a baseline) has `step` null.
- `step` orders the series, and stands on the axis; no two checkpoints of a series have the same.
- `checkpoint` is its absolute path. The folder may be gone since (trainings keep their last few): its cells stay.
- `fingerprint` follows from the checkpoint's files, not from where they lie or when they were copied.
- A cell is complete, incomplete, failed or not run, as any cell of a suite: `outputs.board_of(record, folder)` has its
  metric, interval and state (`Leaderboard.tables[variant].rows[model].entries[task]`), and its run folder is
  `folder / cell.name`.

Cells stand in suite.json by model: the suite's own models first, then the checkpoints by step. Several trainings are
several folders.

What the gate says of each checkpoint is `Leaderboard.changes`, see `orchestrator.compare.series.Change`, and
"changes" of leaderboard.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.suite.record import Record, RecordedCell


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint of a series.

    Attributes:
        name: Its name: the model's in the suite, the name of its folder.
        step: Its training step.
        path: Its folder, which may be gone.
        cells: Its cells: every task and variant.
    """

    name: str
    step: int
    path: str
    cells: Sequence[RecordedCell]


def checkpoints(record: Record) -> list[Checkpoint]:
    """Returns the checkpoints of a suite's folder by step; empty if the suite has none."""
    by_model: dict[str, list[RecordedCell]] = {}
    for cell in record.cells:
        if cell.step is not None:
            by_model.setdefault(cell.model, []).append(cell)
    series = [Checkpoint(name, cells[0].step or 0, cells[0].checkpoint, cells) for name, cells in by_model.items()]
    return sorted(series, key=lambda checkpoint: checkpoint.step)
