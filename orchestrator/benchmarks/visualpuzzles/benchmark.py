"""VisualPuzzles: multiple-choice puzzles of five kinds of reasoning (arXiv 2504.10342).

`VisualPuzzles_cot` and `VisualPuzzles_direct` are the 1,168 puzzles of the paper.
`VisualPuzzles[_<category>]` are direct answers by category, and `..._visual_cot` an episode of
two turns: the model first draws an auxiliary diagram, then answers from puzzle and diagram. A
diagram that does not come ends the episode (`unparsed`, reason no_image): the reference scores
the words of the first stage, or nothing, in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.base import Benchmark, LetterSettings, check_parity, letter_scoring, metrics_by, shuffled
from orchestrator.benchmarks.visualpuzzles import prompts
from orchestrator.benchmarks.visualpuzzles.prompts import CATEGORIES
from orchestrator.data.images import row_image
from orchestrator.data.opening import FORMS, check_unique, only, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Kind, Table
from orchestrator.samples import (
    Answer,
    Call,
    NoAnswerError,
    Sample,
    Turn,
    Variant,
    image_part,
    text_part,
    user,
)

LETTERS = "ABCD"
INSTRUCTIONS = {
    "VisualPuzzles_cot": prompts.COT,
    "VisualPuzzles_direct": prompts.DIRECT,
    "VisualPuzzles_steps": prompts.STEPS,
    "VisualPuzzles_strategy": prompts.COT,
}
MAIN = tuple(INSTRUCTIONS)
"""The tasks of all 1,168 puzzles; `reasoning` scores the last two."""
VISUAL_COT = "_visual_cot"

COLUMNS: dict[str, Kind] = {"id": object, "question": str, "options": (list, NoneType), "answer": str}
TABLE = Table(hub="neulab/VisualPuzzles", split="train", or_split="test", columns=COLUMNS | {"category": str})
"""All 1,168 puzzles."""
SUBSET = "kkv233/unig2u_dataset"
"""100 puzzles of each category: what the tasks by category have without `--data`."""


def category_of(task: str) -> str:
    """Returns the category of a task's puzzles, "" for all five."""
    name = task.removesuffix(VISUAL_COT).removeprefix("VisualPuzzles").removeprefix("_")
    return name if name in CATEGORIES else ""


def open_puzzles(task: str, data: str | None) -> RowSource:
    """Opens the puzzles of a task: of its category, where it has one; then rows need not name theirs."""
    category = category_of(task)
    layout = replace(TABLE, columns=COLUMNS) if category else TABLE
    if data is None and task not in MAIN:
        names = [category] if category else CATEGORIES
        table = replace(
            layout, hub=SUBSET, split="test", files=[f"visualpuzzles/{name}.parquet" for name in names], or_split=""
        )
        source = open_rows(None, table)
    else:
        source = open_rows(data and _category_file(Path(data), category), layout)
    if category:
        source = only(source, lambda row: row_category(task, row) == category)
    return check_unique(source, task, lambda row: identifier(task, row))


def _category_file(data: Path, category: str) -> str:
    """Returns the category's own file of a folder laid out like the subset, else the data itself."""
    file = data / f"{category}.parquet"
    return str(file if category and file.is_file() else data)


def row_category(task: str, row: Row) -> str:
    """Returns a row's category, the task's own where the row does not say."""
    return str(row.fields.get("category") or category_of(task)).lower()


def identifier(task: str, row: Row) -> str:
    """Returns a row's part of the sample key; ids of the subset are unique within a category only."""
    return str(row["id"]) if task in MAIN or category_of(task) else f"{row_category(task, row)}/{row['id']}"


def samples(row: Row, variant: Variant[LetterSettings]) -> Iterator[Sample]:
    """Returns the puzzle of one row, in one turn, or in two ("diagram", "answer") for Visual CoT."""
    name = identifier(variant.task, row)
    category = row_category(variant.task, row)
    options: list[str] = [str(option) for option in row["options"] or ()]
    target = row["answer"].strip().upper()
    if target not in LETTERS[: len(options) or 4] or category not in CATEGORIES:
        raise DataError(f"puzzle {name}: answer {row['answer']!r} or category {category!r} is not known")
    options, target = shuffled(options, target, variant, name)

    block = prompts.question_block(row["question"], options)
    visual = variant.task.endswith(VISUAL_COT)
    instruction = INSTRUCTIONS.get(variant.task, prompts.DIRECT)
    prompt = prompts.stage_2(block, category) if visual else f"{block}\n{instruction}"
    config = model.GenerationConfig(
        max_output_tokens=512 if visual else 4096,
        temperature=0.0,
        top_p=1.0,
        stop=["\n\n"] if variant.parity else [],
    )
    # An instruction that asks for a letter does not go with texts to score; the last turn of Visual CoT holds one.
    likelihood, lettered = variant.method == "likelihood", visual or not options or variant.settings.letters
    if likelihood and not lettered:
        prompt = block
    labels = {"category": category, "option_kind": "text" if options else "image"}
    if row.fields.get("difficulty"):
        labels["difficulty"] = str(row["difficulty"])
    reference = {"variant": "main" if variant.task in MAIN else "unig2u"}
    scoring = letter_scoring(
        variant, options, target, labels, lettered=lettered, parity="lmms_visualpuzzles", params=reference
    )
    continuations = scoring.options if likelihood else ()

    def answer(answers: Sequence[Answer]) -> Call:
        images = [image_part(row_image(row))]
        if visual:
            drawn = next((image for one in answers for image in one.images), None)
            if drawn is None:
                raise NoAnswerError("no_image", "the first stage made no diagram")
            images.append(image_part(drawn.data))
        return Call((user(*images, text_part(prompt)),), config, continuations)

    def diagram(_: Sequence[Answer]) -> Call:
        instruction = text_part(prompts.stage_1(block, category))
        # Decoding is left to the server: settings for words mean nothing to many makers of images.
        return Call((user(image_part(row_image(row)), instruction),), modality=model.MODALITY_IMAGE, stage="generate")

    last = Turn(answer, "answer" if visual else "", scoring)
    yield Sample(variant.key(name), (Turn(diagram, "diagram"), last) if visual else (last,))


def needs(variant: Variant) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant)
    return ("IMAGE_INPUT", "MULTI_IMAGE") if variant.task.endswith(VISUAL_COT) else ("IMAGE_INPUT",)


def stage_needs(variant: Variant) -> Mapping[str, Sequence[str]]:
    """Returns the capabilities that drawing a diagram needs; another model may do it (`--stage generate=H:P`)."""
    return {"generate": ("GENERATE", "IMAGE_INPUT", "IMAGE_OUTPUT")} if variant.task.endswith(VISUAL_COT) else {}


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Draws puzzles of the five categories, in VisualPuzzles' schema."""
    from orchestrator.benchmarks.visualpuzzles.synthetic import rows

    category = category_of(task)
    return (row for row in rows(seed) if category in ("", row["category"]))


def _tasks() -> Iterator[tuple[str, str]]:
    yield "VisualPuzzles_cot", "All 1,168 puzzles, thinking step by step"
    yield "VisualPuzzles_direct", "All 1,168 puzzles, answered directly"
    for suffix, how in (("", "answered directly"), (VISUAL_COT, "with an auxiliary diagram that the model draws")):
        yield f"VisualPuzzles{suffix}", f"Puzzles of all five categories, {how}"
        for category in CATEGORIES:
            yield f"VisualPuzzles_{category}{suffix}", f"Puzzles of {category} reasoning, {how}"


BENCHMARK = Benchmark(
    name="visualpuzzles",
    tasks=dict(_tasks()),
    data=f"{TABLE.hub}; by category {SUBSET}\n{FORMS}",
    rows=open_puzzles,
    samples=samples,
    metrics=lambda _: metrics_by(
        "category", "difficulty", "option_kind", "category difficulty", "option_kind difficulty"
    ),
    synthetic=synthetic,
    settings=LetterSettings,
    needs=needs,
    stage_needs=stage_needs,
    row=lambda key, labels: f"{labels.get('category')}/{key.rpartition('/')[2].removesuffix(':answer')}",
)
