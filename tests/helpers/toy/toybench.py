"""A benchmark of somebody else's, found by its entry point: small, quick, one and two turns."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.samples import (
    Answer,
    BadRowError,
    Call,
    NoAnswerError,
    Sample,
    Scoring,
    Turn,
    Variant,
    assistant,
    image_part,
    metric,
    text_part,
    user,
)

OPTIONS = ("red", "green", "blue", "grey")


@dataclass(frozen=True, slots=True)
class Settings:
    tokens: int = field(default=16, metadata={"help": "bound on an answer's tokens"})


def picture(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (number % 256, number // 256 % 256, 7)).save(buffer, "PNG")
    return buffer.getvalue()


def rows(_: str, data: str | None) -> RowSource:
    """`--data FILE`: a line a row, the line being the id; `bad` ids have a corrupt image."""
    if data is None or not Path(data).is_file():
        raise DataError(f"no data at {data}; --data takes a text file with one id a line")
    ids = Path(data).read_text().split()
    return RowSource(data, str(len(ids)), len(ids), lambda: (_row(word, n) for n, word in enumerate(ids)))


def synthetic(_: str, seed: int) -> Iterator[Row]:
    number = 0
    while True:
        yield _row(str(number), seed + number)
        number += 1


def _row(identifier: str, number: int) -> Row:
    return Row({"id": identifier, "number": number}, lambda _: picture(number))


def samples(row: Row, variant: Variant[Settings]) -> Iterable[Sample]:
    number, key = row["number"], variant.key(row["id"])
    scoring = Scoring(
        "choice",
        targets=("ABCD"[number % 4],),
        options=OPTIONS,
        labels={"shade": "even" if number % 2 == 0 else "odd"},
        group=str(number // 2),
    )

    def first(_: Sequence[Answer]) -> Call:
        if str(row["id"]).startswith("bad"):
            raise BadRowError("bad_image", "the image cannot be decoded")
        image = row.image()
        assert image is not None
        config = model.GenerationConfig(max_output_tokens=variant.settings.tokens, temperature=0.0)
        continuations = OPTIONS if variant.method == "likelihood" else ()
        text = text_part(f"row {row['id']}: which colour?")
        return Call((user(image_part(image), text),), config, continuations)

    def second(answers: Sequence[Answer]) -> Call:
        if not answers[0].text:
            raise NoAnswerError("nothing_said", "the first turn is empty")
        call = first(())
        return Call((*call.messages, assistant(answers[0].text), user(text_part("sure?"))), call.config, stage="second")

    if variant.task == "toy_two":
        yield Sample(key, (Turn(first, "look"), Turn(second, "tell", scoring)))
    else:
        if variant.method == "likelihood":
            scoring = Scoring("likelihood", (OPTIONS[number % 4],), OPTIONS, labels=scoring.labels, group=scoring.group)
        yield Sample(key, (Turn(first, scoring=scoring),))


def metrics(_: Variant) -> Sequence[scorer.MetricSpec]:
    return [
        metric("accuracy", "accuracy", by=[["shade"]]),
        metric("pairs", "group_all"),
    ]


BENCHMARK = Benchmark(
    name="toy",
    tasks={"toy": "Which colour?", "toy_two": "Which colour, in two turns?"},
    data="a text file with one id a line",
    rows=rows,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=Settings,
    stage_needs=lambda variant: {"second": ("IMAGE_INPUT",)} if variant.task == "toy_two" else {},
    groups={"toys": ("toy", "toy_two")},
    synthetic_rows=40,
)
