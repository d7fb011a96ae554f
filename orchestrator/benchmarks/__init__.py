"""Benchmarks: rows as samples, verdicts as metrics. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.benchmarks.base import (
        Benchmark as Benchmark,
        NoSettings as NoSettings,
        TaskGroup as TaskGroup,
        check_parity as check_parity,
        setting as setting,
        shuffled as shuffled,
    )
    from orchestrator.benchmarks.registry import (
        TASK_FILES as TASK_FILES,
        UnknownTaskError as UnknownTaskError,
        find as find_tasks,
    )

__all__ = ["find_tasks"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "base": "Benchmark NoSettings TaskGroup check_parity setting shuffled",
        "registry": "TASK_FILES UnknownTaskError find:find_tasks",
    },
)
