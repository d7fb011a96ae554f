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
        for said, meant in self.names.items():
            line = line.replace(said, meant)
        words = [*shlex.split(line, comments=True), *more]
        assert words.pop(0) == "orchestrator", line
        if words[0] == "eval":
            words += ["--limit", str(ROWS), "--quiet"]
            words += [] if {"--endpoint", "--model"} & set(words) else ["--endpoint", self.model.address]
            words += [] if "--run" in words else ["--run", f"runs/of-line-{len(list(self.folder.glob('runs/*')))}"]
        if words[0] in ("eval", "score", "merge", "import") and words[1] != "reform-instructions":
            words += ["--scorer", self.scorer.address]
        done = CliRunner().invoke(main, words)
        # A server without weights may well have no result.
        none = done.exit_code == 4 and "look at the answers in" in done.output
        assert done.exit_code == 0 or none, f"{shlex.join(words)}\n{done.output}\n{done.exception!r}"
        if words[0] in ("eval", "import") and "--run" in words:
            self.run = self.folder / words[len(words) - 1 - words[::-1].index("--run") + 1]
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
