"""V*-Bench: multiple-choice questions on small details of large photos (arXiv 2312.14135).

The prompt is that of lmms-eval's `vstar_bench`, with two faults that only `--parity` keeps: the reference repeats the
instruction that the data's text ends in, and an option with parentheses is lost, so that later ones get other letters.
`protocol=paper` is the paper's own: log-likelihood of the options' texts after the question alone, mean over tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.base import Benchmark, check_parity, letter_scoring, metrics_by, shuffled
from orchestrator.benchmarks.vstar.annotations import APPENDIX, is_annotated, labels_of, of_task, open_annotated
from orchestrator.benchmarks.vstar.prompt import (
    INSTRUCTION,
    LETTERS,
    VstarSettings,
    deepeyes_prompt,
    listed,
    reference_prompt,
    split_text,
)
from orchestrator.data.images import row_image
from orchestrator.data.opening import FORMS, check_unique, only, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Kind, Table
from orchestrator.errors import ConfigError
from orchestrator.samples import Call, Sample, Scoring, Variant, image_part, single, text_part, user

COLUMNS: dict[str, Kind] = {"text": str, "label": str, "category": str, "question_id": object}
TABLE = Table(hub="lmms-lab/vstar-bench", split="test", columns=COLUMNS)


def open_vstar(task: str, data: str | None) -> RowSource:
    """Opens the rows of a task: a table, or the authors' annotations."""
    source = open_annotated(Path(str(data))) if is_annotated(data) else open_rows(data, TABLE)
    return check_unique(only(source, lambda row: of_task(row, task)), task, lambda row: str(row["question_id"]))


def samples(row: Row, variant: Variant[VstarSettings]) -> Iterator[Sample]:
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
    labels = {"category": row["category"], **labels_of(row)}
    scoring = letter_scoring(variant, options, target, labels, lettered=lettered, parity="lmms_vstar", params={})
    if variant.settings.protocol == "paper":
        if not options:
            raise DataError(f"question {identifier} lists no options to score")
        right = options[LETTERS.index(target)]
        prompt, scoring = question, Scoring("likelihood", (right,), tuple(options), {"reduction": "mean"}, labels)
    if variant.settings.protocol == "deepeyes":
        prompt = deepeyes_prompt(question, options)
    stop = ["\n\n"] if variant.parity else []

    def ask() -> Call:
        config = model.GenerationConfig(max_output_tokens=16, temperature=0.0, top_p=1.0, stop=stop)
        messages = (user(image_part(row_image(row)), text_part(prompt)),)
        return Call(messages, config, scoring.options if likelihood else ())

    yield single(variant.key(identifier), ask, scoring)


def needs(variant: Variant[VstarSettings]) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant)
    if variant.settings.protocol == "paper" and (variant.method != "likelihood" or variant.settings.letters):
        raise ConfigError("--set protocol=paper scores options' texts: add --method likelihood, without letters=true")
    if variant.settings.protocol == "deepeyes" and (variant.method != "generate" or variant.parity):
        raise ConfigError("--set protocol=deepeyes asks for an answer in words: leave out --method and --parity")
    return ("IMAGE_INPUT",)


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Returns synthetic scenes with small objects, in V*-Bench's schema."""
    from orchestrator.benchmarks.vstar.synthetic import rows

    drawn_rows = rows(seed, APPENDIX) if task == "vstar_bench_appendix" else rows(seed)
    return (row for row in drawn_rows if of_task(row, task))


BENCHMARK = Benchmark(
    name="vstar",
    tasks={
        "vstar_bench": "Small details of large photos: attributes (4 options) and relative positions (2 options)",
        "vstar_bench_direct_attributes": "The questions on an object's attributes",
        "vstar_bench_relative_position": "The questions on where two objects stand to each other",
        "vstar_bench_appendix": "The appendix's sets OCR and GPT4V-hard, of the authors' annotations (--data)",
    },
    data=f"{TABLE.hub}\n{FORMS}; or a folder of the authors' annotations (direct_attributes/NAME.json and NAME.jpg)",
    rows=open_vstar,
    samples=samples,
    metrics=lambda _: metrics_by("category", "boxes"),
    synthetic=synthetic,
    settings=VstarSettings,
    needs=needs,
)
