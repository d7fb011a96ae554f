"""Reasoning of models on VisualPuzzles, classified by a judge (arXiv 2504.10342, tables 4 and 5, figure 5).

`VisualPuzzles_steps` asks for marked steps in the paper's words, and a judge classifies the steps.
`VisualPuzzles_strategy` asks like `VisualPuzzles_cot`, and a judge names the strategy. The paper does not publish its
judge's prompts: kinds and criteria are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark, LetterSettings, check_parity
from orchestrator.benchmarks.visualpuzzles import benchmark as puzzles
from orchestrator.benchmarks.visualpuzzles.prompts import MARK
from orchestrator.data.rows import Row
from orchestrator.samples import Sample, Variant, metric

STEPS, STRATEGY = "VisualPuzzles_steps", "VisualPuzzles_strategy"
KINDS = (
    "logical: it draws a conclusion from what is seen or known: it compares, infers, computes, or rules an option out",
    "visual: it says what the image or the question shows",
    "knowledge: it recalls a fact, a formula or a definition that the puzzle does not show",
    "other: it plans, repeats what was said, or states the final answer",
)
CRITERIA = {
    "answer first": "It works out what the answer must be like before it looks at the options.",
    "option first": "It tries the options until one fits, without having worked out the answer before.",
    "branching": "It follows two or more approaches or hypotheses, or leaves one for another.",
    "re-validation": "It goes back to an earlier step or result and checks it again.",
}
"""Metric -> what is true of the answers that it is the share of."""


def samples(row: Row, variant: Variant[LetterSettings]) -> Iterator[Sample]:
    """Returns the puzzle of one row, whose answer a judge reads."""
    params = (
        {"kinds": list(KINDS), "mark": MARK}
        if variant.task == STEPS
        else {"criteria": list(CRITERIA.values()), "reasoning": True}
    )
    rule = "judge_steps" if variant.task == STEPS else "judge_rubric"
    for sample in puzzles.samples(row, variant):
        (turn,) = sample.turns
        assert turn.scoring
        yield replace(
            sample,
            turns=(replace(turn, scoring=replace(turn.scoring, rule=rule, params=params, targets=(), options=())),),
        )


def metrics(variant: Variant[LetterSettings]) -> list[scorer.MetricSpec]:
    """Returns the mean share of each kind of steps, or the share of the answers of which a criterion is true."""
    if variant.task == STEPS:
        parts = {f"{name} steps": name for name in (kind.partition(":")[0] for kind in KINDS)}
    else:
        parts = {name: f"criterion_{number}" for number, name in enumerate(CRITERIA, 1)}
    by = [("category",), ("option_kind",)]
    return [metric(name, "mean", by=by, params={"part": part, "unit": "percent"}) for name, part in parts.items()]


def needs(variant: Variant) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant, reference=False)
    return ("IMAGE_INPUT",)


BENCHMARK = Benchmark(
    name="visualpuzzles_reasoning",
    tasks={
        STEPS: "All 1,168 puzzles in marked steps, which a judge sorts by kind; needs a judge",
        STRATEGY: "All 1,168 puzzles, thinking step by step; a judge says how the answer was found",
    },
    data=puzzles.BENCHMARK.data,
    rows=puzzles.open_puzzles,
    samples=samples,
    metrics=metrics,
    synthetic=puzzles.synthetic,
    settings=LetterSettings,
    methods=("generate",),
    needs=needs,
)
