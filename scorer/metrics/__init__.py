"""The metrics: one file each, imported when a request names it."""

from __future__ import annotations

from scorer.metrics.base import Metric
from scorer.registry import Registry

MODULES = {
    name: f"scorer.metrics.{name}"
    for name in (
        "accuracy", "caption", "calibration", "choice_bias", "consistency", "group_all", "harness_group",
        "harness_task", "instability", "judge_agreement", "mean", "multi_round", "pass_at", "rate",
        "reform_instability", "vlmevalkit",
    )
}  # fmt: skip
"""Metric -> module whose `METRIC` it is."""

FOREIGN = frozenset({"harness_group", "harness_task", "vlmevalkit"})
"""Metrics that run code of others, as the rules do whose items they are of."""


def metrics() -> Registry[Metric]:
    """Returns the registry of all metrics: ours and users' entry points."""
    return Registry("metric", MODULES, (Metric,))
