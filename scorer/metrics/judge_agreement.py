"""Agreement of the judges of a panel: Krippendorff's alpha for nominal decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.statistics.intervals import krippendorffs_alpha
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table


def plan(_: Params) -> Plan:
    """Reads the parameters: there are none."""
    return Plan(_compute, columns=frozenset({"panel"}))


def _compute(table: Table) -> pb.MetricResult:
    panels = [_by_judge(panel) for panel in table.word("panel") if len(panel) > 1]
    judges = sorted({judge for panel in panels for judge in panel})
    result = pb.MetricResult(denominator=len(panels))
    if panels:
        same = sum(len(set(panel.values())) == 1 for panel in panels)
        result.details.update({"judges": judges, "unanimous": same, "judged": len(panels)})
    alpha = krippendorffs_alpha([list(panel.values()) for panel in panels])
    if alpha is not None:
        result.value = alpha
    return result


def _by_judge(panel: Iterable[str]) -> dict[str, str]:
    """Returns judge -> decision; a second judge of the same name becomes "name (2)"."""
    decisions: dict[str, str] = {}
    known: Counter[str] = Counter()
    for entry in panel:
        name, decision = entry.split("\t", 1)
        known[name] += 1
        decisions[name if known[name] == 1 else f"{name} ({known[name]})"] = decision
    return decisions


METRIC = Metric(
    name="judge_agreement",
    description="Krippendorff's alpha (nominal) over the items that at least two judges of a panel decided, those "
    "among them that stayed unjudged because no majority came about: 1 is perfect agreement, 0 what chance gives. "
    "Undefined where all decisions are the same. Added to every task of a run whose scorer has a panel.",
    plan=plan,
    unit="",
)
