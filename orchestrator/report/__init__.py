"""Reports of runs: a page for people, a table on a terminal. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.report.finish import Reports as Reports, judge_lines as judge_lines, write_report as write_report
    from orchestrator.report.leaderboard import save as save_leaderboard
    from orchestrator.report.readings import described as described_readings

__all__ = ["described_readings", "save_leaderboard"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "finish": "Reports judge_lines write_report",
        "leaderboard": "save:save_leaderboard",
        "readings": "described:described_readings",
    },
)
