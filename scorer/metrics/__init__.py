"""The metrics: one file each, imported when a request names it."""

from __future__ import annotations

from scorer.metrics.base import Metric
from scorer.registry import Registry

MODULES = {
    "accuracy": "scorer.metrics.accuracy",
    "caption": "scorer.metrics.caption",
    "calibration": "scorer.metrics.calibration",
    "choice_bias": "scorer.metrics.choice_bias",
    "consistency": "scorer.metrics.consistency",
    "group_all": "scorer.metrics.group_all",
    "instability": "scorer.metrics.instability",
    "judge_agreement": "scorer.metrics.judge_agreement",
    "mean": "scorer.metrics.mean",
    "multi_round": "scorer.metrics.multi_round",
    "pass_at": "scorer.metrics.pass_at",
    "rate": "scorer.metrics.rate",
    "reform_instability": "scorer.metrics.reform_instability",
}
"""Metric -> module whose `METRIC` it is."""


def metrics() -> Registry[Metric]:
    """Returns the registry of all metrics: ours and users' entry points."""
    return Registry("metric", MODULES, (Metric,))
