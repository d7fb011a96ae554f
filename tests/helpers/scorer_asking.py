"""Small ways to make items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer

Ask = Callable[..., Awaitable[tuple[list[pb.Verdict], pb.Summary | None]]]
Where = dict[str, list[str]]


def likelihood(key: str, chosen: int, right: int, **fields: object) -> pb.ScoreRequest:
    """Returns a request of four options of which `chosen` is the likeliest."""
    request = pb.ScoreRequest(key=key, rule="likelihood", options="1234", targets=[str(right + 1)], **fields)
    for index in range(4):
        request.scores.add(logprob=-1.0 if index == chosen else -5.0, token_count=1)
    return request


def passed(key: str, outcome: str, score: float | None = None, **fields: object) -> pb.ScoreRequest:
    """Returns a request with a verdict reached before."""
    request = pb.ScoreRequest(key=key, **fields)
    request.verdict.outcome = outcome
    if score is not None:
        request.verdict.score = score
    return request


def spec(name: str, metric: str, *by: list[str], where: Where | None = None, **params: object) -> pb.MetricSpec:
    """Returns a metric's specification."""
    spec = pb.MetricSpec(name=name, metric=metric)
    for labels in by:
        spec.by.add(labels=labels)
    for label, values in (where or {}).items():
        spec.where[label].values.extend(values)
    if params:
        spec.params.update(params)
    return spec


def summarize(items: Iterable[pb.ScoreRequest], *specs: pb.MetricSpec) -> pb.Summary:
    """Returns the summary of items whose verdicts are known."""
    summarizer = Summarizer(specs, metrics())
    for item in items:
        summarizer.add(item, item.verdict)
    return summarizer.finish()


def measure(items: Iterable[pb.ScoreRequest], metric: str, **params: object) -> pb.MetricResult:
    """Returns one result of items whose verdicts are known."""
    return summarize(items, spec("m", metric, **params)).metrics[0]
