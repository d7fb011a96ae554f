"""MARVEL's AVR question after one or two worked demonstrations (the paper's few-shot chain of thought).

As in the paper, demonstrations have the target's pattern and come from the Sequence
configuration; 3D-Geometry, which has no sequences, draws from its own puzzles. None comes from
the target's family of shared panels. The paper's hand-written reasoning is not published: the
data's explanation stands in for it, or a file of the user's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import OUTPUT_TOKENS, Benchmark, check_parity, setting
from orchestrator.benchmarks.marvel import benchmark as marvel, texts as marvel_texts
from orchestrator.benchmarks.marvel.families import Pool
from orchestrator.data.rows import Row, RowSource
from orchestrator.samples import (
    BadRowError,
    Call,
    Message,
    Sample,
    Variant,
    assistant,
    image_part,
    metric,
    single,
    text_part,
    user,
)

INSTRUCTION = "Explain your reasoning step by step, then end with: The answer is choice X."
CONCLUSION = "The answer is choice {mark}."
SOLID = "3D-Geometry"
MIXED = ("Sequence", "Two-row")


@dataclass(frozen=True, slots=True)
class FewShotSettings:
    """Settings for `--set`."""

    shots: int = setting(1, "demonstrations before the question")
    demonstrations: Literal["same_pattern", "other_pattern", "mixed_configuration"] = setting(
        "same_pattern",
        "same_pattern; other_pattern (any but the target's); mixed_configuration (Sequence and Two-row in turn)",
    )
    texts: str = setting("", "file with columns id and reasoning, in place of explanations")
    chat_turns: bool = setting(False, "demonstrations as earlier turns of the conversation")
    letters: bool = setting(False, "name the choices A to D")
    max_output_tokens: int = setting(1024, "bound on an answer's tokens", OUTPUT_TOKENS)
    texts_sha256: str = setting("", "set by itself: hash of the file of texts")

    def __post_init__(self) -> None:
        if not 1 <= self.shots <= 8:
            raise ValueError(f"shots is {self.shots}: give 1 to 8")
        object.__setattr__(self, "texts_sha256", marvel_texts.checked(self.texts, "reasoning"))


def open_with_pool(task: str, data: str | None) -> RowSource:
    """Opens MARVEL, each row with all rows in its field `pool`."""
    source = marvel.open_marvel(task, data)

    def iterate() -> Iterator[Row]:
        pool = Pool(list(source))
        return (Row({**row.fields, "pool": pool}, row.load) for row in pool.rows)

    return replace(source, iterate=iterate)


def choose(row: Row, variant: Variant[FewShotSettings]) -> list[Row]:
    """Returns the demonstrations of a puzzle, at random but the same for the same seed.

    Raises:
        BadRowError: There are not enough ("no_demonstration").
    """
    settings = variant.settings
    pool: Pool = row["pool"]
    rng = variant.rng(row["id"], "demonstrations")
    taken = {pool.family(row["id"])}
    chosen: list[Row] = []
    for number in range(settings.shots):
        candidates = [one for one in pool.rows if _fits(one, row, settings, number)]
        rng.shuffle(candidates)
        example = next((one for one in candidates if pool.family(one["id"]) not in {None, *taken}), None)
        if example is None:
            raise BadRowError("no_demonstration", f"puzzle {row['id']} has no demonstration number {number + 1}")
        taken.add(pool.family(example["id"]))
        chosen.append(example)
    return chosen


def _fits(one: Row, target: Row, settings: FewShotSettings, number: int) -> bool:
    if settings.texts and one["id"] not in marvel_texts.load(settings.texts, "reasoning"):
        return False
    same: bool = one["pattern"] == target["pattern"]
    if settings.demonstrations == "other_pattern":
        return not same and bool(one["task_configuration"] == "Sequence")
    if target["pattern"] == SOLID:
        return same
    mixed = settings.demonstrations == "mixed_configuration"
    return same and bool(one["task_configuration"] == (MIXED[number % 2] if mixed else "Sequence"))


def samples(row: Row, variant: Variant[FewShotSettings]) -> Iterator[Sample]:
    """Returns the AVR question of a puzzle, `marvel_few_shot/<id>`."""
    settings, letters = variant.settings, variant.settings.letters
    order = marvel.choice_order(row, variant)

    def question(one: Row, order: Sequence[int] = (0, 1, 2, 3)) -> Message:
        text = f"{marvel.worded(one['avr_question'], letters)}\n{INSTRUCTION}"
        return user(image_part(marvel.whole(one, letters, order)), text_part(text))

    def ask() -> Call:
        messages: list[Message] = []
        for one in choose(row, variant):
            messages += [question(one), assistant(_worked(one, settings))]
        messages.append(question(row, order))
        if not settings.chat_turns:
            messages = [user(*(part for message in messages for part in message.parts))]
        config = model.GenerationConfig(max_output_tokens=settings.max_output_tokens, temperature=0.0)
        return Call(tuple(messages), config)

    yield single(variant.key(row["id"]), ask, marvel.avr_scoring(row, variant.method, letters, order))


def _worked(row: Row, settings: FewShotSettings) -> str:
    texts = marvel_texts.load(settings.texts, "reasoning") if settings.texts else {}
    reasoning = texts.get(row["id"], row["explanation"])
    mark = marvel.marks(settings.letters)[row["answer"] - 1]
    return f"{reasoning if isinstance(reasoning, str) else ' '.join(reasoning)}\n{CONCLUSION.format(mark=mark)}"


def metrics(_: Variant) -> list[scorer.MetricSpec]:
    """Returns the AVR accuracy and how the choices are distributed."""
    return [metric("AVR", "accuracy", by=marvel.BY), metric("AVR choice bias", "choice_bias")]


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Draws puzzles; demonstrations come from the first 170, ten of each pattern and configuration."""
    from itertools import islice

    rows = marvel.synthetic("marvel", seed)
    first = list(islice(rows, 170))
    # Drawn panels are so few that all puzzles would be of one family; each is its own here.
    pool = Pool(first, known={row["id"]: row["id"] for row in first})
    for source in (first, rows):
        for row in source:
            yield Row({**row.fields, "pool": pool}, row.load)


def needs(variant: Variant) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant, reference=False)
    return ("IMAGE_INPUT", "MULTI_IMAGE")


BENCHMARK = Benchmark(
    name="marvel_few_shot",
    tasks={"marvel_few_shot": "MARVEL's AVR question after worked demonstrations of the same pattern"},
    data=marvel.BENCHMARK.data,
    rows=open_with_pool,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=FewShotSettings,
    methods=("generate",),
    needs=needs,
    family=marvel.BENCHMARK.name,
    row=marvel.question_of,
)
