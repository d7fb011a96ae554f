"""`vstar_search`: V*-Bench by V*'s own system, a model with a visual search; see `searching` for what it asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.facts import FOUND, IOU, SEARCH_LENGTH, TARGETS, TARGETS_FOUND
from orchestrator.benchmarks.base import Benchmark, check_parity, letter_scoring, metrics_by, setting, shuffled
from orchestrator.benchmarks.vstar import benchmark as vstar, searching
from orchestrator.benchmarks.vstar.annotations import labels_of
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION, LETTERS, listed, split_text
from orchestrator.data.images import row_image
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import (
    Answer,
    Call,
    Image,
    Lookups,
    Sample,
    Scoring,
    ToolResult,
    Turn,
    Variant,
    image_part,
    metric,
    text_part,
    user,
)

TASK = "vstar_search"


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings for `--set`."""

    objects: Literal["missing", "targets"] = setting(
        "missing", "objects to search: those that the model calls missing, or the annotated targets"
    )


def samples(row: Row, variant: Variant[SearchSettings]) -> Iterator[Sample]:
    """Returns the question of one row, `vstar_search/<question_id>`."""
    identifier, likelihood = str(row["question_id"]), variant.method == "likelihood"
    question, options = split_text(row["text"])
    target = row["label"].strip().upper()
    if target not in LETTERS[: len(options)]:
        raise DataError(f"question {identifier}: label {row['label']!r} names none of its {len(options)} options")
    options, target = shuffled(options, target, variant, identifier)
    labels = {"category": row["category"], **labels_of(row)}
    in_turn = variant.settings.objects == "targets"
    if in_turn and "targets" not in row.fields:
        raise DataError(f"question {identifier} names no targets: give the authors' annotations, or objects=missing")
    if likelihood:
        right = options[LETTERS.index(target)]
        scoring = Scoring("likelihood", (right,), tuple(options), {"reduction": "mean"}, labels)
    else:
        scoring = letter_scoring(variant, options, target, labels, lettered=True, parity="", params={})
    prompt = question if likelihood else f"{listed(question, options)}\n{INSTRUCTION}"

    def ask(_: Sequence[Answer]) -> Call:
        config = model.GenerationConfig(max_output_tokens=searching.OUTPUT_TOKENS, temperature=0.0, top_p=1.0)
        return Call((user(image_part(row_image(row)), text_part(question)),), config)

    def calls(answer: Answer) -> list[str]:
        return searching.arguments(row["targets"] if in_turn else searching.missing_objects(answer.text))

    def follow(first: Call, results: Sequence[ToolResult]) -> Call:
        shown = first.messages[0].parts[0]
        assert isinstance(shown.image, Image)
        parts = searching.focused(shown.image, searching.searches(results), prompt)
        config = model.GenerationConfig(max_output_tokens=16, temperature=0.0, top_p=1.0)
        return Call((user(shown, *parts),), config, scoring.options if likelihood else ())

    def facts(results: Sequence[ToolResult]) -> dict[str, float]:
        return searching.facts(searching.searches(results), row.fields.get("boxes") or (), in_turn=in_turn)

    lookups = Lookups(searching.TOOL, calls, follow, facts)
    yield Sample(variant.key(identifier), (Turn(ask, scoring=scoring, play=lookups),))


def metrics(_: Variant[SearchSettings]) -> list[scorer.MetricSpec]:
    """Returns accuracy, and how the searches met the boxes: means over the targets, not over the questions."""
    return [
        *metrics_by("category"),
        metric("search length", "fact", params={"fact": SEARCH_LENGTH, "weight": TARGETS_FOUND}),
        metric("targets found", "fact", params={"fact": FOUND, "weight": TARGETS}),
        metric("iou", "fact", params={"fact": IOU}),
    ]


def needs(variant: Variant[SearchSettings]) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant, reference=False)
    return ("IMAGE_INPUT", "MULTI_IMAGE", "GENERATE")


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Returns synthetic scenes with the names and boxes of what they ask about."""
    from orchestrator.benchmarks.vstar.synthetic import rows

    return rows(seed, annotated=True)


BENCHMARK = Benchmark(
    name=TASK,
    tasks={TASK: "V*-Bench by a model with a visual search: ask, search what it misses, answer with crops of it"},
    data=vstar.BENCHMARK.data,
    rows=lambda _, data: vstar.open_vstar("vstar_bench", data),
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=SearchSettings,
    needs=needs,
    family=vstar.BENCHMARK.name,
    tool=searching.TOOL,
)
