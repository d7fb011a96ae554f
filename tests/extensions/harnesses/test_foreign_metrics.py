"""Metrics that import tasks of other harnesses are those that the scorer holds to be foreign."""

from __future__ import annotations

import lyncean_harnesses  # noqa: F401  (the search follows packages that are imported)
from lyncean.plugins.code_hash import closure
from scorer.metrics import FOREIGN, MODULES


def test_metrics_that_load_tasks_are_foreign() -> None:
    foreign = {
        name
        for name, module in MODULES.items()
        if "lyncean_harnesses.scoring.task_metric" in closure([module], ["scorer", "lyncean_harnesses"])
    }
    assert foreign == FOREIGN.keys()
