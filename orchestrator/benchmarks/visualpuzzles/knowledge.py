"""The knowledge questions of VisualPuzzles: what its puzzles ask one to know, without the puzzles (arXiv 2504.10342).

`--data` is `knowledge/puzzle_questions.json` of neulab/VisualPuzzles, or `mmmu_questions.json` beside it: 50 items with
up to ten questions and their answers. A judge grades the answers, by our prompt.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import OUTPUT_TOKENS, Benchmark, check_parity, setting
from orchestrator.data.opening import check_unique, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table
from orchestrator.samples import Call, Sample, Scoring, Variant, metric, single, text_part, user

FILE = "knowledge/puzzle_questions.json"
TABLE = Table(hub="", split="", columns={"id": object, "questions": list}, images=())
_SYNTHETIC = (
    ("What is the next prime number after {}?", "the smallest prime number above {}"),
    ("What is the square of {}?", "{} times itself"),
)


@dataclass(frozen=True, slots=True)
class KnowledgeSettings:
    """Settings for `--set`."""

    max_output_tokens: int = setting(512, "bound on an answer's tokens", OUTPUT_TOKENS)


def open_questions(task: str, data: str | None) -> RowSource:
    """Opens a file of knowledge questions.

    Raises:
        DataError: There is none, or it cannot be read.
    """
    if data is None:
        raise DataError(f"{task} has no data on the hub: --data {FILE} of github.com/neulab/VisualPuzzles")
    return check_unique(open_rows(data, TABLE), task, lambda row: str(row["id"]))


def samples(row: Row, variant: Variant[KnowledgeSettings]) -> Iterator[Sample]:
    """Returns the questions of one item, `<task>/<id>:<number>`, in one group; an item may have none."""
    config = model.GenerationConfig(max_output_tokens=variant.settings.max_output_tokens, temperature=0.0)
    for number, pair in enumerate(row["questions"], 1):
        try:
            question, answer = str(pair["question"]), str(pair["answer"])
        except (KeyError, TypeError) as error:
            raise DataError(f"item {row['id']}: question {number} is not a pair of question and answer") from error

        def ask(question: str = question) -> Call:
            return Call((user(text_part(question)),), config)

        scoring = Scoring("judge_answer", (answer,), params={"question": question}, group=str(row["id"]))
        yield single(variant.key(f"{row['id']}:{number}"), ask, scoring)


def metrics(_: Variant) -> list[scorer.MetricSpec]:
    """Returns the share of items all of whose questions are answered, as the paper has it, and that of questions."""
    return [metric("Items known", "group_all"), metric("Questions known", "accuracy")]


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Returns questions on numbers, two an item."""
    for number in itertools.count(seed):
        pairs = [{"question": ask.format(number), "answer": answer.format(number)} for ask, answer in _SYNTHETIC]
        yield Row({"id": number, "questions": pairs}, lambda _: None)


def needs(variant: Variant) -> tuple[str, ...]:
    """Returns the capabilities a model needs: it sees no image."""
    check_parity(variant, reference=False)
    return ()


BENCHMARK = Benchmark(
    name="visualpuzzles_knowledge",
    tasks={"VisualPuzzles_knowledge": "Questions on what puzzles ask one to know, without the puzzles; needs a judge"},
    data=f"none; --data {FILE} of github.com/neulab/VisualPuzzles",
    rows=open_questions,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=KnowledgeSettings,
    methods=("generate",),
    needs=needs,
)
