"""Accuracy: the share of right answers, over all planned items and over the answered ones."""

from __future__ import annotations

from scorer.metrics import mean
from scorer.metrics.base import Metric

METRIC = Metric(
    name="accuracy",
    description="Mean of the score over all planned items, where an item without a score counts 0; value_answered is "
    "the same over scored and unparsed items. Interval: Wilson's where every score is 0 or 1, else a bootstrap; both "
    "over groups where groups have several items.",
    plan=mean.plan,
    params=mean.PARAMS,
)
