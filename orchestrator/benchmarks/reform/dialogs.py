"""Dialogues: rounds about one image, asked with the true history or with the model's own answers in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.benchmarks.reform.families import Item
from orchestrator.benchmarks.reform.layouts import answered
from orchestrator.benchmarks.reform.prompts import Turn, marks_of, with_options
from orchestrator.benchmarks.reform.questions import Question
from orchestrator.benchmarks.reform.settings import Switches
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import Answer, Variant

Ask = Callable[[Item, str, int, Variant], Question]
"""Makes the question of an item: item, identifier, number, and the repeat that asks."""

_MARK = re.compile(r"\(([1-9A-Za-z])\)")
_PLACES = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Round:
    """One round: its number from 0, the options as stored, and the index of the right one."""

    number: int
    question: str
    options: tuple[str, ...]
    answer: int


@dataclass(frozen=True, slots=True)
class Dialog:
    """A dialogue: its image's id and its rounds."""

    image_id: str
    rounds: tuple[Round, ...]

    def item(self, at: int) -> Item:
        """Returns one round as an item, its sample id `{image}_{round}`."""
        dialog_round = self.rounds[at]
        sample_id = f"{self.image_id}_{dialog_round.number}"
        return Item(
            sample_id, dialog_round.question, dialog_round.options, dialog_round.answer, round=dialog_round.number
        )


def dialog_of(row: Row, *, capitalize: bool) -> Dialog:
    """Reads a dialogue; its questions and answers are indices into the file's two tables.

    Raises:
        DataError: An index leads nowhere, or the answer is none of the options.
    """
    questions, answers = row["questions"], row["answers"]

    def word(table: Sequence[Any], index: Any) -> str:
        if not isinstance(index, int) or not 0 <= index < len(table):
            raise DataError(f"image {row['image_id']}: index {index!r} leads out of a table of {len(table)}")
        text = str(table[index])
        return text.capitalize() if capitalize else text

    rounds = []
    for number, entry in enumerate(row["dialog"]):
        question = word(questions, entry["question"])
        if entry["answer"] not in entry["answer_options"]:
            raise DataError(f"image {row['image_id']}, round {number}: the answer is none of the options")
        rounds.append(
            Round(
                number,
                question if question.endswith("?") else f"{question}?",
                tuple(word(answers, index) for index in entry["answer_options"]),
                entry["answer_options"].index(entry["answer"]),
            )
        )
    return Dialog(str(row["image_id"]), tuple(rounds))


def history(
    dialog: Dialog, answers: Sequence[Sequence[str] | None], switches: Switches, variant: Variant
) -> Iterator[Turn]:
    """Yields the turns of the rounds before one.

    `answers` holds for each earlier round each test's answer, an option's text or raw words; None means the right one.
    """
    for dialog_round, texts in zip(dialog.rounds, answers, strict=False):
        # The most frequent, and of several the first.
        text = dialog_round.options[dialog_round.answer] if texts is None else Counter(texts).most_common(1)[0][0]
        yield from _exchange(dialog, dialog_round, text, switches, variant)


def _exchange(dialog: Dialog, dialog_round: Round, text: str, switches: Switches, variant: Variant) -> Iterator[Turn]:
    question = dialog_round.question
    if switches.options_in_history:
        # One draw for all tests and rounds that show this exchange.
        rng = replace(variant, repeat=0).rng(f"{dialog.image_id}_{dialog_round.number}", "marks in history")
        marks = marks_of(switches.option_mark, rng)
        question = with_options(question, dialog_round.options, marks)
        text = answered(text, dialog_round.options, marks, switches.prefix)
    yield {"from": "human", "value": question}
    yield {"from": "assistant", "value": text}


def answer_text(answer: Answer, options: Sequence[str], reduction: str) -> str:
    """Returns the text of the option that a test's answer names, by mark or exactly; else the answer as it is."""
    if answer.scores:
        mean = reduction == "mean"
        values = [score.logprob / (max(1, score.token_count) if mean else 1) for score in answer.scores]
        return options[values.index(max(values))]
    match = _MARK.search(answer.text)
    if match is None:
        return answer.text
    mark = match.group(1)
    index = int(mark) - 1 if mark.isdigit() else _PLACES.index(mark.lower())
    return options[index] if index < len(options) else answer.text
