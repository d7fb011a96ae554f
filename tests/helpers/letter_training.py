"""A folder with a suite of one task, and checkpoints that answer it with one letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers import commands
from helpers.engine_cluster import Server
from helpers.same_results import results_of

ROWS = 40
TASK = "task: letters\ndata: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\nanswer_is: letter\n"
SUITE = """\
checkpoints: {{}}
tasks: [letters.yaml]
options: {{scorer: "{scorer}"}}
gate: {{baseline: previous, conditions: [no_fall]}}
"""


class Training:
    """A folder with a suite, and checkpoints whose model says one letter: A is right in nine of ten rows."""

    def __init__(self, folder: Path, scorer: Server) -> None:
        self.folder = folder
        rows = "".join(f"{n},row {n}: which?,red,green,{'A' if n % 10 else 'B'}\n" for n in range(ROWS))
        (folder / "rows.csv").write_text("id,question,A,B,answer\n" + rows)
        (folder / "letters.yaml").write_text(TASK)
        (folder / "night.yaml").write_text(SUITE.format(scorer=scorer.address))

    def save(self, step: int, letter: str) -> Path:
        path = self.folder / "ckpt" / f"step_{step}"
        path.mkdir(parents=True)
        (path / "config.json").write_text(letter)
        (path / "STABLE").touch()
        return path

    def eval(self, *options: str, code: int = 0) -> str:
        arguments = ["eval", "--suite", "night.yaml", "--checkpoints", "ckpt/step_*", *options]
        return commands.orchestrator(*arguments, folder=self.folder, code=code)

    def record(self, run: str = "runs/night") -> list[dict[str, Any]]:
        cells: list[dict[str, Any]] = json.loads((self.folder / run / "suite.json").read_text())["cells"]
        return cells

    def results(self, run: str = "runs/night") -> dict[str, bytes]:
        return {cell["name"]: results_of(self.folder / run / cell["name"]) for cell in self.record(run)}

    def board(self, run: str = "runs/night") -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / run / "leaderboard.json").read_text())
        return loaded
