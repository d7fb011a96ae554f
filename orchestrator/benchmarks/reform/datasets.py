"""ReForm-Eval's 61 datasets (arXiv 2310.02569), read from `datasets.csv`: its columns are the attributes of `Dataset`.

There `boxes` is "corners" or "size" (see `Boxes.corners`), "several" where a record has a list of them, and the width.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HUB = "Aweminus/ReForm-Eval-Data"
SINGLE_CHOICE, OCR, KIE, GENERATION = "SingleChoice", "OCROpenEnded", "KIEOpenEnded", "Generation"
FORMULATIONS = (SINGLE_CHOICE, GENERATION, OCR, KIE)
METHODS = ("generation", "likelihood")
"""The reference's inference methods."""

DIMENSIONS = {
    "cg": "coarse-grained perception",
    "fg": "fine-grained perception",
    "stp": "scene text perception",
    "vgr": "visually grounded reasoning",
    "spatial": "spatial understanding",
    "dialog": "multi-turn dialogue",
    "cmi": "cross-modal inference",
    "desc": "visual description",
}
PERCEPTION = ("cg", "fg", "stp")


@dataclass(frozen=True, slots=True)
class Boxes:
    """Format of a record's boxes.

    Attributes:
        corners: Whether a box is [x1, y1, x2, y2]; else it is [x, y, width, height].
        several: Whether the field holds a list of boxes.
        width: Width of the outline in pixels; 0 cuts the box out instead of drawing it.
    """

    corners: bool
    several: bool
    width: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """One of the 61 datasets.

    Attributes:
        label: Its name in the paper's tables.
        dimension: A key of `DIMENSIONS`.
        dataset_name: The reference's `--dataset_name`.
        formulations: The formulations it has, the one of the paper first.
        family: A key of `orchestrator.benchmarks.reform.families.FAMILIES`.
        instructions: A key of `orchestrator.benchmarks.reform.instructions.OWN`; "" if the data file holds them.
        context: A key of `orchestrator.benchmarks.reform.prompts.CONTEXTS`; "" without an in-context turn.
        file: Path of its data below `huggingface_data/`.
        source: File of the reference, below `build/`, that holds its instructions.
        kind: TDIUC's question type, which tells the datasets of one file apart.
        boxes: How boxes are shown, None where there are none.
        max_new_tokens: The published bound on an answer.
    """

    label: str
    dimension: str
    dataset_name: str
    formulations: tuple[str, ...]
    family: str
    instructions: str
    context: str
    file: str
    source: str
    kind: str
    boxes: Boxes | None
    max_new_tokens: int

    @property
    def name(self) -> str:
        """Its label in lower snake case."""
        return re.sub(r"[^a-z0-9]+", "_", self.label.lower())

    @property
    def task(self) -> str:
        """Its task."""
        return f"reform_{self.name}"


def _dataset(row: Mapping[str, str]) -> Dataset:
    boxes = row["boxes"].split()
    return Dataset(
        **{
            **row,
            "formulations": tuple(row["formulations"].split()),
            "boxes": Boxes("corners" in boxes, "several" in boxes, int(boxes[-1])) if boxes else None,
            "max_new_tokens": int(row["max_new_tokens"]),
        }  # type: ignore[arg-type]
    )


def _datasets() -> list[Dataset]:
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as table:
        return [_dataset(row) for row in csv.DictReader(table)]


DATASETS: Mapping[str, Dataset] = {dataset.task: dataset for dataset in _datasets()}
"""Task -> dataset, by dimension roughly as the reference lists them."""


def groups() -> dict[str, tuple[str, ...]]:
    """Returns the task groups: all, each dimension, perception and cognition, and those with core files."""
    tasks = {f"reform_{key}": tuple(t for t, d in DATASETS.items() if d.dimension == key) for key in DIMENSIONS}
    perception = tuple(task for task, dataset in DATASETS.items() if dataset.dimension in PERCEPTION)
    return {
        "reform": tuple(DATASETS),
        **tasks,
        "reform_perception": perception,
        "reform_cognition": tuple(task for task in DATASETS if task not in perception),
        "reform_core": tuple(task for task, dataset in DATASETS.items() if "_core_" in dataset.file),
    }
