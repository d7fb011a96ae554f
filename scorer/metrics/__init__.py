"""The metrics: one file each, imported when a request names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face
from scorer.metrics.base import Metric
from scorer.registry import Registry

if TYPE_CHECKING:
    from scorer.metrics.base import Params as Params, Plan as Plan
    from scorer.metrics.bootstrap import DRAWS as DRAWS, of_strata as of_strata
    from scorer.metrics.intervals import of_mean as of_mean
    from scorer.metrics.table import Table as Table

__all__ = ["Metric"]

__getattr__ = face(
    __name__,
    {"base": "Params Plan", "bootstrap": "DRAWS of_strata", "intervals": "of_mean", "table": "Table"},
)

FOREIGN = {
    "harness_group": "lyncean_harnesses.scoring.group_metric",
    "harness_task": "lyncean_harnesses.scoring.task_metric",
    "vlmevalkit": "lyncean_harnesses.scoring.vlmevalkit_metric",
}
"""Metrics of an extension that run foreign code, like the rules whose items they read."""

MODULES = {
    name: f"scorer.metrics.{name}"
    for name in (
        "abstention", "accuracy", "avg_at", "caption", "calibration", "choice_bias", "consistency", "fact", "group_all",
        "instability", "judge_agreement", "mean", "multi_round", "pass_at", "rate", "reform_instability",
    )
} | FOREIGN  # fmt: skip
"""Metric -> module that exports it as `METRIC`; modules of an extension that is not installed are skipped."""


def metrics() -> Registry[Metric]:
    """Returns the registry of all metrics: ours and users' entry points."""
    return Registry("metric", MODULES, (Metric,))
