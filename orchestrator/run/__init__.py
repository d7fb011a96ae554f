"""Runs: from a request to a complete run folder. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.run.arguments import (
        judge_arguments as judge_arguments,
        server_options as server_options,
        settings_of as settings_of,
    )
    from orchestrator.run.asked import check_asked as check_asked
    from orchestrator.run.checks import check_metrics as check_metrics, check_results as check_results
    from orchestrator.run.console import Terminal as Terminal
    from orchestrator.run.foreign import of_flags as scorer_arguments
    from orchestrator.run.local_server import LocalServers as LocalServers
    from orchestrator.run.plan import make as make_plan, variants as variants
    from orchestrator.run.request import RunRequest as RunRequest
    from orchestrator.run.rescore import rescore as score_again, write_reported as write_reported
    from orchestrator.run.results import read as read_results
    from orchestrator.run.servers import connect_scorer as connect_scorer

__all__ = [
    "make_plan",
    "read_results",
    "score_again",
    "scorer_arguments",
]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "arguments": "judge_arguments server_options settings_of",
        "console": "Terminal",
        "local_server": "LocalServers",
        "plan": "make:make_plan variants",
        "request": "RunRequest",
        "rescore": "rescore:score_again write_reported",
        "results": "read:read_results",
        "servers": "connect_scorer",
        "checks": "check_metrics check_results",
        "foreign": "of_flags:scorer_arguments",
        "asked": "check_asked",
    },
)
