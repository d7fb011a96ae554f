"""V*-Bench: multiple-choice questions on small details of large photos (arXiv 2312.14135).

The prompt is that of lmms-eval's `vstar_bench`. The data's text ends in the answer instruction
already, and the reference, which takes it for a part of the last option, adds it again: the
model reads it twice. Here it stands once unless `parity` is set. Likewise an option that holds
parentheses is lost in the reference and the options after it get the letters before theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark, LetterSettings, check_parity, shuffled
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION, LETTERS, listed, reference_prompt, split_text
from orchestrator.data.images import row_image
from orchestrator.data.opening import FORMS, check_unique, only, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table
from orchestrator.samples import Call, Sample, Scoring, Variant, image_part, metric, single, text_part, user

CATEGORIES = {
    "vstar_bench_direct_attributes": "direct_attributes",
    "vstar_bench_relative_position": "relative_position",
}
"""Sub-task -> the category of its rows."""

TABLE = Table(
    hub="lmms-lab/vstar-bench",
    split="test",
    columns={"text": str, "label": str, "category": str, "question_id": object},
)


def open_vstar(task: str, data: str | None) -> RowSource:
    """Opens V*-Bench; a sub-task has the rows of its category."""
    source = open_rows(data, TABLE)
    if task in CATEGORIES:
        source = only(source, lambda row: row["category"] == CATEGORIES[task])
    return check_unique(source, task, lambda row: str(row["question_id"]))


def samples(row: Row, variant: Variant) -> Iterator[Sample]:
    """Returns the question of one row, `<task>/<question_id>`."""
    identifier = str(row["question_id"])
    question, options = split_text(row["text"])
    target = row["label"].strip().upper()
    if target not in LETTERS[: len(options) or 4]:
        raise DataError(f"question {identifier}: label {row['label']!r} names none of its {len(options) or 4} options")
    if variant.shuffle_options and options:
        options, target = shuffled(options, target, variant, identifier)

    lettered = not options or (variant.settings or LetterSettings()).letters
    prompt = reference_prompt(row["text"]) if variant.parity else f"{listed(question, options)}\n{INSTRUCTION}"
    labels = {"category": row["category"]}
    config = model.GenerationConfig(
        max_output_tokens=16, temperature=0.0, top_p=1.0, stop=["\n\n"] if variant.parity else []
    )
    continuations: tuple[str, ...] = ()
    if variant.method == "likelihood":
        continuations = tuple(LETTERS[: len(options) or 4]) if lettered else tuple(options)
        if not lettered:
            prompt, target = listed(question, options), options[LETTERS.index(target)]
        scoring = Scoring("likelihood", (target,), continuations, labels=labels)
    elif variant.parity:
        scoring = Scoring("lmms_vstar", (target,), tuple(options), labels=labels)
    else:
        scoring = Scoring("choice", (target,), tuple(options), {} if options else {"count": 4}, labels)

    yield single(
        variant.key(identifier),
        lambda: Call((user(image_part(row_image(row)), text_part(prompt)),), config, continuations),
        scoring,
    )


def metrics(_: Variant) -> list[scorer.MetricSpec]:
    """Returns accuracy in percent, overall and by category, and how choices are distributed."""
    return [
        metric("accuracy", "accuracy", by=(("category",),), params={"unit": "percent"}),
        metric("choice bias", "choice_bias", by=(("category",),)),
    ]


def needs(variant: Variant) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant)
    return ("IMAGE_INPUT",)


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Returns synthetic scenes with small objects, in V*-Bench's schema."""
    from orchestrator.benchmarks.vstar.synthetic import rows

    return (row for row in rows(seed) if task not in CATEGORIES or row["category"] == CATEGORIES[task])


BENCHMARK = Benchmark(
    name="vstar",
    tasks={
        "vstar_bench": "Small details of large photos: attributes (4 options) and relative positions (2 options)",
        "vstar_bench_direct_attributes": "The questions on an object's attributes",
        "vstar_bench_relative_position": "The questions on where two objects stand to each other",
    },
    data=f"{TABLE.hub}\n{FORMS}",
    rows=open_vstar,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=LetterSettings,
    needs=needs,
)
