"""V*-Bench: multiple-choice questions on small details of large photos (arXiv 2312.14135).

The prompt is that of lmms-eval's `vstar_bench`, with two faults that only `--parity` keeps: the reference repeats the
instruction that the data's text ends in, and an option with parentheses is lost, so that later ones get other letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.base import Benchmark, LetterSettings, check_parity, letter_scoring, metrics_by, shuffled
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION, LETTERS, listed, reference_prompt, split_text
from orchestrator.data.images import row_image
from orchestrator.data.opening import FORMS, check_unique, only, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Kind, Table
from orchestrator.samples import Call, Sample, Variant, image_part, single, text_part, user

COLUMNS: dict[str, Kind] = {"text": str, "label": str, "category": str, "question_id": object}
TABLE = Table(hub="lmms-lab/vstar-bench", split="test", columns=COLUMNS)


def _in(task: str, row: Row) -> bool:
    """Returns whether a task has a row: a sub-task has those of its category, which its name ends with."""
    return task in ("vstar_bench", f"vstar_bench_{row['category']}")


def open_vstar(task: str, data: str | None) -> RowSource:
    """Opens the rows of a task."""
    source = open_rows(data, TABLE)
    if task != "vstar_bench":
        source = only(source, lambda row: _in(task, row))
    return check_unique(source, task, lambda row: str(row["question_id"]))


def samples(row: Row, variant: Variant[LetterSettings]) -> Iterator[Sample]:
    """Returns the question of one row, `<task>/<question_id>`."""
    identifier = str(row["question_id"])
    question, options = split_text(row["text"])
    target = row["label"].strip().upper()
    if target not in LETTERS[: len(options) or 4]:
        raise DataError(f"question {identifier}: label {row['label']!r} names none of its {len(options) or 4} options")
    options, target = shuffled(options, target, variant, identifier)

    likelihood, lettered = variant.method == "likelihood", not options or variant.settings.letters
    prompt = listed(question, options)
    if not likelihood or lettered:
        prompt = reference_prompt(row["text"]) if variant.parity else f"{prompt}\n{INSTRUCTION}"
    labels = {"category": row["category"]}
    scoring = letter_scoring(variant, options, target, labels, lettered=lettered, parity="lmms_vstar", params={})
    stop = ["\n\n"] if variant.parity else []

    def ask() -> Call:
        config = model.GenerationConfig(max_output_tokens=16, temperature=0.0, top_p=1.0, stop=stop)
        messages = (user(image_part(row_image(row)), text_part(prompt)),)
        return Call(messages, config, scoring.options if likelihood else ())

    yield single(variant.key(identifier), ask, scoring)


def needs(variant: Variant) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant)
    return ("IMAGE_INPUT",)


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Returns synthetic scenes with small objects, in V*-Bench's schema."""
    from orchestrator.benchmarks.vstar.synthetic import rows

    return (row for row in rows(seed) if _in(task, row))


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
    metrics=lambda _: metrics_by("category"),
    synthetic=synthetic,
    settings=LetterSettings,
    needs=needs,
)
