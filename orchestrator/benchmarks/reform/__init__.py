"""ReForm-Eval: 61 datasets in eight dimensions, two inference methods. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.benchmarks.reform.datasets import (
        DATASETS as DATASETS,
        FORMULATIONS as FORMULATIONS,
        GENERATION as GENERATION,
        KIE as KIE,
        METHODS as METHODS,
        OCR as OCR,
        SINGLE_CHOICE as SINGLE_CHOICE,
        Dataset as Dataset,
    )
    from orchestrator.benchmarks.reform.instructions import FORMAT as FORMAT
    from orchestrator.benchmarks.reform.metrics import metrics as reform_metrics

__all__ = ["reform_metrics"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "datasets": "DATASETS Dataset FORMULATIONS GENERATION KIE METHODS OCR SINGLE_CHOICE",
        "instructions": "FORMAT",
        "metrics": "metrics:reform_metrics",
    },
)
