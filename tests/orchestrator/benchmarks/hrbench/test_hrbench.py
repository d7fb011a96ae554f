"""HR-Bench: prompts, the four orders of a question, and the published average over them."""

from __future__ import annotations

import base64
import csv
import io
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.bench_scoring import prefer, score
from PIL import Image

from lyncean.errors import UserError
from orchestrator.benchmarks.base import LetterSettings
from orchestrator.benchmarks.hrbench.benchmark import BENCHMARK, COLUMNS, grouped
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import Variant

VARIANT = Variant("hrbench_4k", settings=LetterSettings())
COLOURS = ["red", "blue", "green", "white"]


def turned(number: int, question: str, options: list[str] = COLOURS, category: str = "single") -> list[dict[str, Any]]:
    """Returns the rows of a question, the first option of `options` being right."""
    records = []
    for turn in range(4):
        order = options[turn:] + options[:turn]
        right = "ABCD"[order.index(options[0])]
        row = {"index": 4 * number + turn, "question": question, **dict(zip("ABCD", order, strict=True))}
        records.append(row | {"answer": right, "category": category, "cycle_category": str(turn)})
    return records


def picture(seed: int) -> bytes:
    buffer = io.BytesIO()
    Image.frombytes("L", (120, 90), random.Random(seed).randbytes(120 * 90)).save(buffer, "PNG")
    return buffer.getvalue()


def rows(*records: dict[str, Any]) -> list[Row]:
    return list(grouped(Row(fields, lambda _: picture(0)) for fields in records))


def sample(row: Row, **variant: Any) -> Any:
    (planned,) = BENCHMARK.samples(row, Variant("hrbench_4k", **{"settings": LetterSettings(), **variant}))
    return planned


def prompt(row: Row, **variant: Any) -> str:
    (message,) = sample(row, **variant).turns[0].ask([]).messages
    return message.parts[1].text


def test_prompts() -> None:
    first, second, *_ = rows(*turned(0, " What is the color of the cup? "))
    assert prompt(first) == (
        "What is the color of the cup?\nA. red\nB. blue\nC. green\nD. white\nAnswer the option letter directly."
    )
    assert "A. blue\nB. green\nC. white\nD. red\n" in prompt(second)
    assert prompt(first, method="likelihood") == "What is the color of the cup?\nA. red\nB. blue\nC. green\nD. white"
    assert prompt(first, method="likelihood", settings=LetterSettings(letters=True)).endswith("directly.")


def test_the_orders_of_a_question_are_a_group() -> None:
    cup, dog = turned(0, "What is the color of the cup?"), turned(1, "What is the color of the dog?")
    again = turned(2, "What is the color of the cup?")  # of another image
    for order in ([*cup, *dog, *again], [row for turn in zip(cup, dog, again, strict=True) for row in turn]):
        groups: dict[str, set[int]] = {}
        for row in rows(*order):
            groups.setdefault(sample(row).turns[0].scoring.group, set()).add(row["index"] // 4)
        assert sorted(map(sorted, groups.values())) == [[0], [1], [2]]


def test_metrics_are_averages_over_the_orders() -> None:
    questions = rows(*turned(0, "Cup?"), *turned(1, "Dog?"), *turned(2, "Left?", category="cross"))
    outcome = score(BENCHMARK, questions, VARIANT, lambda sample, _: "D" if sample.key.endswith(("/4", "/9")) else "A")
    # "A" is right in order 0, "D" in order 1: right are 0, 8 and 9.
    assert outcome.percent("accuracy") == 25
    assert outcome.percent("accuracy", category="single") == 12.5
    assert outcome.percent("accuracy", category="cross") == 50
    assert outcome.percent("accuracy", cycle_category="0") == round(100 * 2 / 3, 2)
    by_order = [outcome.percent("accuracy", cycle_category=str(turn)) for turn in range(4)]
    assert sum(by_order) / 4 == pytest.approx(outcome.percent("accuracy"), abs=0.01)
    assert outcome.percent("all orders right") == 0
    right = score(BENCHMARK, questions, VARIANT, lambda _, turn: turn.scoring.targets[0])
    assert (right.percent("accuracy"), right.percent("all orders right", category="cross")) == (100, 100)
    likelihood = Variant("hrbench_4k", method="likelihood", settings=LetterSettings())
    sure = score(
        BENCHMARK, questions, likelihood, lambda _, turn: prefer(turn.scoring.options, turn.scoring.targets[0])
    )
    assert sure.percent("accuracy") == 100


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_the_authors_tables(form: str, tmp_path: Path) -> None:
    cells = [base64.b64encode(picture(number)).decode() for number in range(2)]
    table = [row | {"image": cells[number]} for number in range(2) for row in turned(number, "Which color?")]
    file = tmp_path / f"hr_bench_4k.{form}"
    if form == "tsv":
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, table[0], delimiter="\t")
            writer.writeheader()
            writer.writerows(table)
    else:
        pq.write_table(pa.Table.from_pylist(table), file)
    source = BENCHMARK.rows("hrbench_4k", str(file))
    assert (source.count, [str(row["index"]) for row in source]) == (8, [str(number) for number in range(8)])
    assert [row.image() for row in source] == [picture(number // 4) for number in range(8)]
    assert len({row["group"] for row in source}) == 2


def test_mistakes() -> None:
    (row,) = rows(turned(0, "Cup?")[0] | {"answer": "E"})
    with pytest.raises(DataError, match="question 0: answer 'E' is none of A, B, C, D"):
        sample(row)
    with pytest.raises(UserError, match="no published reference"):
        BENCHMARK.needs(Variant("hrbench_4k", parity=True, settings=LetterSettings()))


def test_synthetic_rows_are_in_the_schema() -> None:
    synthetic = list(islice(BENCHMARK.synthetic("hrbench_8k", 0), 16))
    assert all({*COLUMNS, "group"} == set(row.fields) for row in synthetic)
    assert [row["category"] for row in synthetic] == 2 * (4 * ["single"] + 4 * ["cross"])
    assert len({row["group"] for row in synthetic}) == 4
    for four in (synthetic[start : start + 4] for start in range(0, 16, 4)):
        assert len({row[row["answer"]] for row in four}) == 1
        assert {row["answer"] for row in four} == set("ABCD")
    assert synthetic[0].image() == synthetic[3].image()
