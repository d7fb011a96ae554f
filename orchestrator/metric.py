"""A metric as a benchmark or a run names it to the scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf import json_format

from lyncean.scorer.v1 import scorer_pb2 as scorer


def metric(
    name: str,
    kind: str,
    *,
    where: Mapping[str, Sequence[str]] | None = None,
    by: Sequence[Sequence[str]] = (),
    params: Mapping[str, object] | None = None,
) -> scorer.MetricSpec:
    """Returns a metric's specification; see lyncean.scorer.v1.MetricSpec."""
    spec = scorer.MetricSpec(name=name, metric=kind)
    for label, values in (where or {}).items():
        spec.where[label].values.extend(values)
    for labels in by:
        spec.by.add(labels=labels)
    if params:
        json_format.ParseDict(dict(params), spec.params)
    return spec
