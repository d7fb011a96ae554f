"""The band that cut answers leave open for a mean of scores between 0 and 1: all of them wrong, or all right."""

from __future__ import annotations

from lyncean.arrays import Floats
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.table import Table


def put(result: pb.MetricResult, table: Table, values: Floats) -> None:
    """Adds the band of a mean to its result, if an answer is cut and all values are between 0 and 1.

    Args:
        result: The mean over all rows.
        table: The rows.
        values: The value of each row, shape [rows].
    """
    cut = table.cut
    if cut is None or not cut.any() or values.min() < 0 or values.max() > 1:
        return
    uncut = values[~cut]
    known = float(uncut.sum())
    band = pb.CutBand(
        denominator=len(uncut), low=known / len(values), high=(known + len(values) - len(uncut)) / len(values)
    )
    if len(uncut):
        band.whole = known / len(uncut)
    result.cut.CopyFrom(band)
