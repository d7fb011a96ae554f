"""Intervals, tests, sequential and survey statistics, as closed forms. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from lyncean.statistics.distributions import t_quantile as t_quantile
    from lyncean.statistics.intervals import (
        SHARE as SHARE,
        bounds as bounds,
        is_binary as is_binary,
        mean_interval as mean_interval,
    )

__getattr__ = face(
    __name__,
    {
        "distributions": "t_quantile",
        "intervals": "SHARE bounds is_binary mean_interval",
    },
)
