"""MARVEL: 770 abstract visual puzzles, each asked five ways (arXiv 2404.13591).

The AVR question asks for the missing panel, a fine-grained one for a detail of one choice, and
three coarse ones for the number of panels in the context, in the choices and in the whole. A
model understands a puzzle only where all of them are right, so results over groups stand beside
accuracies. The data's question texts are sent; the paper's answer instructions are not
published, so the ones below are ours.

Quantities and Mathematical are the data's names; the paper's tables have the two swapped.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import OUTPUT_TOKENS, Benchmark, check_parity, setting
from orchestrator.benchmarks.marvel import image
from orchestrator.benchmarks.marvel.labels import fine_category, fine_options
from orchestrator.data.images import row_image
from orchestrator.data.opening import FORMS, check_unique, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table
from orchestrator.samples import Call, Part, Sample, Scoring, Variant, image_part, metric, single, text_part, user

AVR_INSTRUCTION = "Answer with the {} of the choice: {}, {}, {} or {}."
FINE_INSTRUCTION = "Answer with one of these two: {}, {}."
COARSE_INSTRUCTION = "Answer with a number."
COARSE = ("context", "choices", "whole")
"""The coarse questions, in the data's order."""
COUNTS = tuple(str(number) for number in range(1, 14))
"""Continuations of a coarse question in log-likelihood scoring: every count that an image can have."""

TABLE = Table(
    hub="kianasun/MARVEL",
    split="train",
    columns={
        "id": int,
        "pattern": str,
        "task_configuration": str,
        "avr_question": str,
        "explanation": str,
        "answer": int,
        "f_perception_question": str,
        "f_perception_answer": str,
        "f_perception_distractor": str,
        "c_perception_question_tuple": list,
        "c_perception_answer_tuple": list,
    },
)


@dataclass(frozen=True, slots=True)
class MarvelSettings:
    """Settings for `--set`."""

    questions: str = setting("avr,fine,coarse", "kinds of question to ask, of these three")
    max_output_tokens: int = setting(512, "bound on an answer's tokens", OUTPUT_TOKENS)
    instruct: bool = setting(True, "add our one-line answer instruction to the data's text")
    letters: bool = setting(False, "name the choices A to D, in the image and in the text")
    panels: bool = setting(False, "show AVR and fine-grained questions panel by panel, an image each")
    question_mark: bool = setting(False, "draw a question mark into the blank panel, for the same questions")

    def __post_init__(self) -> None:
        if self.panels and self.question_mark:
            raise ValueError("panels shows no blank panel to draw a question mark into: leave one out")
        if not self.kinds or not self.kinds <= {"avr", "fine", "coarse"}:
            raise ValueError(f"questions is {self.questions!r}: give avr, fine or coarse, or several with commas")

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of question that are asked."""
        return frozenset(word.strip() for word in self.questions.split(",") if word.strip())


def open_marvel(task: str, data: str | None) -> RowSource:
    """Opens MARVEL: any form of `orchestrator.data.opening`, or a checkout of the GitHub repository.

    Images that a checkout lacks have their samples rejected, with a warning that counts them.
    """
    return check_unique(_opened(data), task, lambda row: str(row["id"]))


def _opened(data: str | None) -> RowSource:
    if data is None:
        return open_rows(None, TABLE)
    labels = Path(data) / "marvel_label.json" if Path(data).is_dir() else Path(data)
    if labels.name != "marvel_label.json" or not labels.exists():
        return open_rows(data, TABLE)
    folder = labels.parent
    source = open_rows(labels, replace(TABLE, image_path=lambda fields: f"Marvel/{fields['id']}.png"))
    missing = sum(not (folder / "Marvel" / f"{row['id']}.png").exists() for row in source)
    if missing == source.count:
        raise DataError(f"{folder} has labels but none of the images Marvel/1.png and on; the checkout is incomplete")
    if missing:
        logging.getLogger(__name__).warning(
            "%d of %d puzzles have no image in %s: their samples will be rejected",
            missing,
            source.count,
            folder / "Marvel",
        )
    return source


def marks(letters: bool) -> tuple[str, ...]:
    """Returns the four choices' names in image and text."""
    return tuple("ABCD" if letters else "1234")


def worded(text: str, letters: bool) -> str:
    """Returns a question's text, the choices renamed where they have letters."""
    if not letters:
        return text
    text = text.replace("1, 2, 3, or 4", "A, B, C, or D")
    return re.sub(r"\b(choice) ([1-4])\b", lambda match: f"{match[1]} {'ABCD'[int(match[2]) - 1]}", text)


def avr_instruction(letters: bool) -> str:
    """Returns our instruction for the AVR question."""
    return AVR_INSTRUCTION.format("letter" if letters else "number", *marks(letters))


def choice_order(row: Row, variant: Variant) -> list[int]:
    """Returns which choice, from 0, is shown in each of the four places."""
    order = [0, 1, 2, 3]
    if variant.shuffle_options:
        variant.rng(row["id"], "options").shuffle(order)
    return order


def whole(row: Row, letters: bool, order: Sequence[int] = (0, 1, 2, 3)) -> bytes:
    """Returns the puzzle's image: the file's own bytes unless it has to be redrawn."""
    data, configuration = row_image(row), row["task_configuration"]
    if tuple(order) != (0, 1, 2, 3):
        data = image.with_choices(data, configuration, order)
    return image.with_letters(data, configuration) if letters else data


def puzzle(row: Row, settings: MarvelSettings, order: Sequence[int] = (0, 1, 2, 3)) -> list[Part]:
    """Returns the puzzle as it is shown, in one image or panel by panel."""
    data = whole(row, settings.letters, order)
    if settings.question_mark:
        data = image.with_question_mark(data, row["task_configuration"], row["c_perception_answer_tuple"][0])
    if not settings.panels:
        return [image_part(data)]
    context, choices = image.cut(data, row["task_configuration"], row["c_perception_answer_tuple"][0])
    named = [(f"Context panel {number}:", panel) for number, panel in enumerate(context, 1)]
    named += [(f"Choice {mark}:", panel) for mark, panel in zip(marks(settings.letters), choices, strict=True)]
    return [part for name, panel in named for part in (text_part(name), image_part(panel))]


def avr_scoring(row: Row, method: str, letters: bool, order: Sequence[int] = (0, 1, 2, 3), **labels: str) -> Scoring:
    """Returns how an AVR answer is judged; `order` as in `image.with_choices`."""
    names = marks(letters)
    drawn = letters and method == "generate"
    if not 1 <= row["answer"] <= 4:
        raise DataError(f"puzzle {row['id']}: answer {row['answer']} is none of its 4 choices")
    return Scoring(
        rule="likelihood" if method == "likelihood" else "choice" if letters else "choice_number",
        targets=(names[list(order).index(row["answer"] - 1)],),
        options=() if drawn else names,
        params={"count": 4} if drawn else {},
        labels=_labels(row, "avr", "avr") | labels,
        group=str(row["id"]),
    )


def samples(row: Row, variant: Variant[MarvelSettings]) -> Iterator[Sample]:
    """Returns those questions of a puzzle whose kind the settings name; see `five`."""
    return (sample for kind, sample in five(row, variant) if kind in variant.settings.kinds)


def five(row: Row, variant: Variant[MarvelSettings]) -> Iterator[tuple[str, Sample]]:
    """Yields the kinds and the five questions of a puzzle, `marvel/<id>:<question>`; the group is the puzzle.

    Options are shuffled by moving the choices in the image, for the AVR question alone: the
    others speak of choices by their place.
    """
    settings = variant.settings
    likelihood = variant.method == "likelihood"
    order = choice_order(row, variant)

    def make_sample(
        name: str,
        text: str,
        instruction: str,
        continuations: Sequence[str],
        show: Callable[[], list[Part]],
        scoring: Scoring,
    ) -> tuple[str, Sample]:
        prompt = worded(text, settings.letters) + (f"\n{instruction}" if settings.instruct else "")
        config = model.GenerationConfig(max_output_tokens=settings.max_output_tokens, temperature=0.0)
        return scoring.labels["kind"], single(
            variant.key(f"{row['id']}:{name}"),
            lambda: Call((user(*show(), text_part(prompt)),), config, tuple(continuations) if likelihood else ()),
            scoring,
        )

    yield make_sample(
        "avr",
        row["avr_question"],
        avr_instruction(settings.letters),
        marks(settings.letters),
        lambda: puzzle(row, settings, order),
        avr_scoring(row, variant.method, settings.letters, order),
    )

    question, answer, distractor = (row[f"f_perception_{part}"] for part in ("question", "answer", "distractor"))
    options = fine_options(question, answer, distractor)
    yield make_sample(
        "fine",
        question,
        FINE_INSTRUCTION.format(*options),
        options,
        lambda: puzzle(row, settings),
        Scoring(
            rule="likelihood" if likelihood else "two_way",
            targets=(answer,),
            options=options,
            labels=_labels(row, "fine", "fine") | {"fine_category": fine_category(answer, distractor)},
            group=str(row["id"]),
        ),
    )

    texts, counts = row["c_perception_question_tuple"], row["c_perception_answer_tuple"]
    if len(texts) != 3 or len(counts) != 3:
        raise DataError(f"puzzle {row['id']}: {len(texts)} coarse questions and {len(counts)} counts, not 3 of each")
    for name, text, count in zip(COARSE, texts, counts, strict=True):
        yield make_sample(
            name,
            text,
            COARSE_INSTRUCTION,
            COUNTS,
            lambda: [image_part(image.without_index(row_image(row), row["task_configuration"]))],
            Scoring(
                rule="likelihood" if likelihood else "count",
                targets=(str(count),),
                options=COUNTS if likelihood else (),
                labels=_labels(row, name, "coarse"),
                group=str(row["id"]),
            ),
        )


def _labels(row: Row, question: str, kind: str) -> dict[str, str]:
    return {
        "question": question,
        "kind": kind,
        "pattern": row["pattern"],
        "configuration": row["task_configuration"],
    }


def question_of(identifier: str, labels: Mapping[str, str]) -> str:
    """Returns an item's puzzle and question, the same in all tasks of MARVEL; without its description it is another."""
    plain = ":plain" if labels.get("input") == "plain" else ""
    return f"{identifier.partition(':')[0]}:{labels.get('question', '')}{plain}"


BY = (("pattern",), ("configuration",), ("pattern", "configuration"))


def metrics(variant: Variant[MarvelSettings]) -> list[scorer.MetricSpec]:
    """Returns the paper's five results, and how the AVR choices are distributed: those whose questions are asked."""
    specs = [
        (metric("AVR", "accuracy", where={"kind": ("avr",)}, by=BY), {"avr"}),
        (metric("Fine", "accuracy", where={"kind": ("fine",)}, by=(("fine_category",), *BY)), {"fine"}),
        (metric("Perc^C", "group_all", where={"kind": ("coarse",)}, by=BY), {"coarse"}),
        (metric("Perc^C&F", "group_all", where={"kind": ("coarse", "fine")}, by=BY), {"coarse", "fine"}),
        (metric("Perc^C&F&AVR", "group_all", by=BY), {"avr", "fine", "coarse"}),
        (metric("AVR choice bias", "choice_bias", where={"kind": ("avr",)}), {"avr"}),
        (metric("Fine choice bias", "choice_bias", where={"kind": ("fine",)}), {"fine"}),
    ]
    return [spec for spec, needed in specs if needed <= variant.settings.kinds]


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Draws puzzles of MARVEL's layout and schema."""
    from orchestrator.benchmarks.marvel.synthetic import rows

    return rows(seed)


def needs(variant: Variant[MarvelSettings]) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    check_parity(variant, reference=False)
    return ("IMAGE_INPUT", "MULTI_IMAGE") if variant.settings.panels else ("IMAGE_INPUT",)


BENCHMARK = Benchmark(
    name="marvel",
    tasks={"marvel": "Abstract visual puzzles: the missing panel, a detail, and three counts, five calls a puzzle"},
    data=f"kianasun/MARVEL\n{FORMS}; or a checkout of 1171-jpg/MARVEL_AVR (marvel_label.json beside Marvel/ID.png)",
    rows=open_marvel,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=MarvelSettings,
    needs=needs,
    row=question_of,
)
