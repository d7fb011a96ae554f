"""Benchmarks of other evaluation harnesses, asked through this engine: `lmms:NAME` and `lm-eval:NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lyncean.harness import harness, split
from orchestrator.benchmarks.base import Benchmark
from orchestrator.benchmarks.harness.lm_eval import LmEvalTask
from orchestrator.benchmarks.harness.lmms import LmmsTask

ASKED = {"lmms": LmmsTask, "lm-eval": LmEvalTask}
"""Prefix -> what asks a task of that harness."""


def load(word: str, include: Sequence[str] = ()) -> dict[str, Benchmark]:
    """Returns the benchmark of each task that a word names, none where it is no foreign task's.

    Args:
        word: For example `lmms:mme`, or a group or tag in its place.
        include: Further folders with configurations of tasks.

    Raises:
        HarnessError: The harness is not installed, or has no such task.
    """
    parts = split(word)
    if parts is None:
        return {}
    prefix, name = parts
    folders = tuple(str(Path(folder).expanduser().absolute()) for folder in include)
    asked = ASKED[prefix]
    return {f"{prefix}:{task}": asked(task, folders).benchmark() for task in harness(prefix).members(name, folders)}
