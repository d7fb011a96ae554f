"""What cut answers leave open of a mean of scores between 0 and 1: the mean of whole ones, and the worst and best."""

from __future__ import annotations

from lyncean.arrays import Floats
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.table import Table


def put(result: pb.MetricResult, table: Table, values: Floats) -> None:
    """Adds the band of a mean to its result, where an answer is cut and all values are between 0 and 1.

    Args:
        result: The mean over all rows.
        table: The rows.
        values: The value of each row, shape [rows].
    """
    cut = table.cut
    if cut is None or not cut.any() or values.min() < 0 or values.max() > 1:
        return
    whole = values[~cut]
    known = float(whole.sum())
    band = pb.CutBand(
        denominator=len(whole), low=known / len(values), high=(known + len(values) - len(whole)) / len(values)
    )
    if len(whole):
        band.whole = known / len(whole)
    result.cut.CopyFrom(band)
