"""The mean of a score or of one of its parts."""

from __future__ import annotations

from lyncean.arrays import Floats, Ints, np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics import intervals as stats
from scorer.errors import RequestError
from scorer.metrics import standard_error
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.intervals import gathered, mean_result
from scorer.metrics.table import Table

DETECTABLE = {"fall": "minimum_detectable_fall", "rise": "minimum_detectable_rise"}
"""Keys of MetricResult.details: the smallest difference that two runs like this one would show, in the metric's unit.
Runs over the same items, compared item by item, show smaller differences."""

CLUSTER = "whether items of one group (or repeats of one item) count as dependent in the interval, default true"

PARAMS = {"cluster": CLUSTER, "facets": standard_error.FACETS}
"""Parameters of every mean over items."""


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    part = params.word("part", "")
    cluster = params.flag("cluster", True)
    level = params.level
    facets = params.strings("facets")
    if taken := standard_error.NAMES.intersection(facets or ()):
        raise RequestError(
            f"a facet is called {min(taken)!r}, as a part of every standard error: rename the label", "invalid_param"
        )
    # A value in percent is a share, bounded by 0 and 1; another part may have any range.
    share = not part or params.word("unit", "fraction") == "percent"

    def items(table: Table) -> tuple[Floats, Ints | None]:
        return table.values(part), table.group if cluster else None

    def compute(table: Table) -> pb.MetricResult:
        values, clusters = items(table)
        within = stats.bounds(values) if share else stats.UNBOUNDED
        result = mean_result(values, clusters, level, within, values[table.answered])
        detectable = stats.detectable_difference(*gathered(values, clusters), binary=stats.is_binary(values))
        for direction, difference in detectable._asdict().items():
            if difference is not None:
                result.details[DETECTABLE[direction]] = round(difference, 6)
        if clusters is not None:
            standard_error.note(result.details, table, values, clusters, facets, level, within)
        if part:
            # A part that the rule did not report counts as 0, which the reader must be able to see.
            missing = int(np.isnan(table.parts[part][table.scored]).sum())
            if missing:
                result.details["scored_without_part"] = missing
        return result

    columns = frozenset[str]() if facets is None else frozenset(standard_error.ORDERS)
    parts = (part,) if part else ()
    return Plan(
        compute,
        columns=columns,
        labels=facets or (),
        parts=parts,
        items=items,
        graded=share,
        of_scores=not part,
    )


METRIC = Metric(
    name="mean",
    description="Mean of the score, or of the part of it that params.part names, over all planned items, where an item "
    "without it counts 0; value_answered is the same over scored and unparsed items. For scores with partial credit.",
    plan=plan,
    params={"part": "a key of Verdict.scores; default the score itself", **PARAMS},
    unit="",
)
