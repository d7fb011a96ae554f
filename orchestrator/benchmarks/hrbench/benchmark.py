"""HR-Bench: multiple choice on images of 4K and 8K, each question in the four cyclic orders of its options.

The prompt is that of lmms-eval's `hrbench4k` and `hrbench8k` (arXiv 2408.15556). The published number is an average
over the orders; a question that is right in all four is counted beside it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.base import Benchmark, LetterSettings, check_parity, letter_scoring, metrics_by, shuffled
from orchestrator.data.images import row_image
from orchestrator.data.opening import FORMS, check_unique, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table
from orchestrator.samples import Call, Sample, Variant, image_part, metric, single, text_part, user

INSTRUCTION = "Answer the option letter directly."
LETTERS = "ABCD"
COLUMNS = {
    "index": object,
    "question": str,
    **dict.fromkeys(LETTERS, str),
    "answer": str,
    "category": str,
    "cycle_category": str,
}
_HUB, _CONFIG = "DreamMr/HR-Bench", "hrbench_version_split"
_GROUP = "group"


def open_hrbench(task: str, data: str | None) -> RowSource:
    """Opens the rows of a task and numbers their questions: the orders of one have one number."""
    table = Table(hub=_HUB, config=_CONFIG, split=task, columns=COLUMNS)
    source = check_unique(open_rows(data, table), task, lambda row: str(row["index"]))
    return replace(source, iterate=lambda: grouped(source.iterate()), iterate_from=None)


def grouped(rows: Iterator[Row]) -> Iterator[Row]:
    """Yields rows with the column `group`, the same for all orders of a question.

    The data do not name the question: it is what has this text and these options. Where several have them, on different
    images, the first in each order is one question, the second another.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        parts = "\n".join([row["category"], row["question"], *sorted(row[letter] for letter in LETTERS)])
        name = hashlib.sha256(parts.encode()).hexdigest()[:16]
        seen[name, row["cycle_category"]] += 1
        yield Row({**row.fields, _GROUP: f"{name}-{seen[name, row['cycle_category']]}"}, row.load)


def samples(row: Row, variant: Variant[LetterSettings]) -> Iterator[Sample]:
    """Returns one order of a question, `<task>/<index>`."""
    identifier = str(row["index"])
    target = row["answer"].strip().upper()
    if len(target) != 1 or target not in LETTERS:
        raise DataError(f"question {identifier}: answer {row['answer']!r} is none of {', '.join(LETTERS)}")
    options, target = shuffled([row[letter] for letter in LETTERS], target, variant, identifier)
    likelihood, lettered = variant.method == "likelihood", variant.settings.letters
    listed = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, options, strict=True))
    prompt = f"{row['question'].strip()}\n{listed}"
    prompt = f"{prompt}{INSTRUCTION}" if lettered or not likelihood else prompt.rstrip("\n")
    labels = {"category": row["category"], "cycle_category": row["cycle_category"]}
    scoring = letter_scoring(variant, options, target, labels, lettered=lettered, parity="", params={})
    scoring = replace(scoring, group=row[_GROUP])

    def ask() -> Call:
        config = model.GenerationConfig(max_output_tokens=16, temperature=0.0, top_p=1.0)
        messages = (user(image_part(row_image(row)), text_part(prompt)),)
        return Call(messages, config, scoring.options if likelihood else ())

    yield single(variant.key(identifier), ask, scoring)


def needs(variant: Variant[LetterSettings]) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant, reference=False)
    return ("IMAGE_INPUT",)


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Returns synthetic scenes in HR-Bench's schema."""
    from orchestrator.benchmarks.hrbench.synthetic import rows

    return grouped(rows(seed))


BENCHMARK = Benchmark(
    name="hrbench",
    tasks={
        "hrbench_4k": "Images of 4K: one object (single) and several (cross), each question in four orders of options",
        "hrbench_8k": "The same with images of 8K",
    },
    groups={"hrbench": ("hrbench_4k", "hrbench_8k")},
    data=f"{_HUB}\n{FORMS}; or the authors' TSV",
    rows=open_hrbench,
    samples=samples,
    metrics=lambda _: [
        *metrics_by("category", "cycle_category"),
        metric("all orders right", "group_all", by=[["category"]]),
    ],
    synthetic=synthetic,
    settings=LetterSettings,
    needs=needs,
)
