"""ReForm-Eval's metrics: accuracy, format hit rate, instability, accuracy over a dialogue's rounds, captions'."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.reform.datasets import GENERATION, SINGLE_CHOICE
from orchestrator.samples import metric

CAPTION_METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr")


INSTRUCTION = "instruction"
"""Label of the instruction that an item was asked with."""


def metrics(formulation: str, *, parity: bool, instability: bool, rounds: bool) -> list[scorer.MetricSpec]:
    """Returns the metrics of a formulation.

    Args:
        formulation: SingleChoice, Generation, OCROpenEnded or KIEOpenEnded.
        parity: Whether they are those of the reference's scripts, over raw text where these are captions'.
        instability: Whether samples have several tests.
        rounds: Whether samples are rounds of dialogues.
    """
    if formulation == GENERATION:
        tokenize, named = ("raw", "raw text") if parity else ("ptb", "PTB tokens")
        return [
            metric(
                f"{name} ({named})",
                "caption",
                params={"measure": name.lower().replace("-", "_"), "tokenize": tokenize},
            )
            for name in CAPTION_METRICS
        ]
    specs = [metric("Accuracy", "accuracy", params={"facets": [INSTRUCTION]})]
    if formulation == SINGLE_CHOICE and parity:
        specs.append(metric("Format hit rate", "mean", params={"part": "format_hit"}))
    if instability:
        specs.append(metric("Instability", "reform_instability" if parity else "instability"))
    if rounds:
        specs.append(metric("Accuracy over rounds", "multi_round"))
    return specs
