"""Benchmarks without a model: given answers, read by the scorer's own rules and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark
from orchestrator.run_folder.records import put_answer, score_request, scoring_json
from orchestrator.samples import Answer, Sample, Turn, Variant
from scorer.metrics import metrics
from scorer.metrics.summarizer import Summarizer
from scorer.rules import rules
from scorer.scoring import Scorer


def shared_data(*parts: str) -> Path:
    """Returns a path of the shared benchmark data; the test is skipped where it is not."""
    root = Path(os.environ.get("LYNCEAN_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there (set LYNCEAN_SHARED_DATA)")
    return path


@dataclass
class Outcome:
    """Verdicts by key, and the metrics."""

    verdicts: dict[str, scorer.Verdict]
    summary: scorer.Summary

    def metric(self, name: str, **labels: str) -> scorer.MetricResult:
        """Returns one metric."""
        (match,) = [f for f in self.summary.metrics if f.name == name and dict(f.labels) == labels]
        return match

    def percent(self, name: str, **labels: str) -> float:
        """Returns one metric's value in percent, to two places."""
        metric = self.metric(name, **labels)
        return round(metric.value * (1 if metric.unit == "percent" else 100), 2)


def score(
    benchmark: Benchmark, rows: Iterable, variant: Variant, say: Callable[[Sample, Turn], Answer | str]
) -> Outcome:
    """Scores what `say` answers to every scored turn."""
    reader = Scorer(rules())
    summarizer = Summarizer(list(benchmark.metrics(variant)), metrics())
    verdicts = {}
    for row in rows:
        for sample in benchmark.samples(row, variant):
            for turn in sample.turns:
                if turn.scoring is None:
                    continue
                reply = say(sample, turn)
                answer = Answer(text=reply) if isinstance(reply, str) else reply
                request = put_answer(score_request(sample.item_key(turn), scoring_json(turn.scoring)), answer)
                verdict = reader.begin(request)
                assert isinstance(verdict, scorer.Verdict)
                assert verdict.key not in verdicts, f"{verdict.key} twice"
                verdicts[verdict.key] = verdict
                summarizer.add(request, verdict)
    return Outcome(verdicts, summarizer.finish())


def prefer(options: Iterable[str], target: str) -> Answer:
    """Returns likelihoods under which the target is the likeliest."""
    return Answer(
        scores=tuple(
            model.ContinuationScore(logprob=-1.0 if option == target else -9.0, token_count=1) for option in options
        )
    )
