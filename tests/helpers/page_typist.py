"""Types the commands of pages that take `orchestrator`, in this process, with few rows and servers that are there."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from helpers.engine_cluster import OUTCOMES, Server
from orchestrator.cli import main

ROWS = 2


@dataclass
class Typist:
    """Types the commands of pages in a folder; `run` is the folder of the last evaluation.

    Attributes:
        folder: The working directory.
        model: Model server in place of any that a page names.
        scorer: Scorer in place of one that a command would start.
        names: Text of a page -> the text to type instead.
    """

    folder: Path
    model: Server
    scorer: Server
    names: dict[str, str] = field(default_factory=dict)
    run: Path = Path()

    def type(self, line: str, *more: str) -> str:
        """Types a line of a page followed by `more`; returns its output."""
        for written, meant in self.names.items():
            line = line.replace(written, meant)
        command = [*shlex.split(line, comments=True), *more]
        assert command.pop(0) == "orchestrator", line
        if command[0] == "eval":
            command += ["--limit", str(ROWS), "--quiet"]
            command += [] if {"--endpoint", "--model"} & set(command) else ["--endpoint", self.model.address]
            command += [] if "--run" in command else ["--run", f"runs/of-line-{len(list(self.folder.glob('runs/*')))}"]
        if command[0] in ("eval", "score", "merge", "import") and command[1] != "reform-instructions":
            command += ["--scorer", self.scorer.address]
        done = CliRunner().invoke(main, command)
        # A server without weights may well have no result.
        none = done.exit_code == 4 and "look at the answers in" in done.output
        assert done.exit_code == 0 or none, f"{shlex.join(command)}\n{done.output}\n{done.exception!r}"
        if command[0] in ("eval", "import") and "--run" in command:
            self.run = self.folder / command[len(command) - 1 - command[::-1].index("--run") + 1]
            counted(self.run)
        return done.output


def counted(run: Path) -> dict[str, dict[str, int]]:
    """Returns the counts of a run's tasks, all of which add up and none of which has a failure."""
    tasks: Mapping[str, Any] = json.loads((run / "results.json").read_text())["tasks"]
    counts: dict[str, dict[str, int]] = {name: task["counts"] for name, task in tasks.items()}
    assert counts
    for name, count in counts.items():
        assert 0 < count["planned"] == sum(count[outcome] for outcome in OUTCOMES), name
        assert count["failed"] == count["unjudged"] == 0, name
    return counts


def write_rows(benchmark: Any, task: str, path: Path, count: int = ROWS, **more: object) -> None:
    """Writes drawn rows of a task as parquet, in the columns that the benchmark reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = islice(benchmark.synthetic(task, 0), count)
    table = [{**row.fields, **more, "image": {"bytes": row.image("image"), "path": None}} for row in rows]
    pq.write_table(pa.Table.from_pylist(table), path)
