"""From an item to its question: distractors, order, marks and instruction, all drawn from the sample's seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.benchmarks.reform.datasets import Dataset
from orchestrator.benchmarks.reform.families import COUNT_OPTIONS, Item
from orchestrator.benchmarks.reform.instructions import Wording
from orchestrator.benchmarks.reform.layouts import render
from orchestrator.benchmarks.reform.prompts import CONTEXTS, Turn, marks_of, with_options
from orchestrator.benchmarks.reform.settings import Switches
from orchestrator.data.rows import DataError
from orchestrator.samples import Message, Variant, assistant, image_part, text_part, user


@dataclass(frozen=True, slots=True)
class Question:
    """The question of one test, without its image.

    Attributes:
        sample_id: The reference's sample id.
        text: The question.
        options: The options as shown; empty for open questions.
        right: Index of the right option among them.
        targets: The right answers of an open question, or its references.
        marks: The options' marks.
        instruct: The instruction; None where it is the question.
        history: Turns before the question, the in-context example among them.
        box: Boxes on the image, as the record holds them; None without any.
        round: The number of a dialogue's round; None outside of dialogues.
        instruction: Which of its dataset's instructions it has, from 0.
    """

    sample_id: str | int
    text: str
    options: tuple[str, ...]
    right: int
    targets: tuple[str, ...]
    marks: str
    instruct: str | None
    history: tuple[Turn, ...] = ()
    box: Any = None
    round: int | None = None
    instruction: int = 0

    @property
    def doubles(self) -> tuple[int, ...]:
        """Indices of all options with the right option's text."""
        return tuple(index for index, text in enumerate(self.options) if text == self.options[self.right])

    def record(self) -> dict[str, Any]:
        """Returns the fields of a prompt under the reference's names."""
        record: dict[str, Any] = {"question": self.text}
        if self.options:
            record["answer_options"] = list(self.options)
        if self.instruct is not None:
            record["instruct"] = self.instruct
        if self.history:
            record["history"] = [dict(turn) for turn in self.history]
        return record


def options_of(item: Item, identifier: str | int, switches: Switches, variant: Variant) -> tuple[tuple[str, ...], int]:
    """Returns the options as shown and the index of the right one.

    As in the reference, every repeat draws its own distractors, and the answer is last unless shuffled. Shuffling
    works on a copy, so the right index follows the right text in every repeat.

    Raises:
        DataError: There are not enough distractors.
    """
    if item.pool:
        others = [text for text in dict.fromkeys(map(str, item.pool)) if text != item.answer]
        if len(others) < COUNT_OPTIONS:
            raise DataError(f"there are {len(others)} distractors for {item.answer!r}, and {COUNT_OPTIONS} are drawn")
        drawn = variant.rng(identifier, "distractors").sample(others, COUNT_OPTIONS)
        options, right = [*drawn, str(item.answer)], COUNT_OPTIONS
    else:
        options, right = list(item.options), int(str(item.answer))
    if not switches.shuffle:
        return tuple(options), right
    answer = options[right]
    others = [text for index, text in enumerate(options) if index != right and (text != answer or not item.rebuilt)]
    if not others:
        others = [text for index, text in enumerate(options) if index != right]
    order = [(text, False) for text in others] + [(answer, True)]
    variant.rng(identifier, "options").shuffle(order)
    return tuple(text for text, _ in order), [is_right for _, is_right in order].index(True)


def question_of(
    item: Item,
    identifier: str | int,
    number: int,
    dataset: Dataset,
    wording: Wording,
    switches: Switches,
    variant: Variant,
) -> Question:
    """Returns the question of one test of an item; instructions and wordings cycle by the repeat, or by `number`.

    Args:
        item: The item.
        identifier: End of its key.
        number: Its row's number from 0.
        dataset: Its dataset.
        wording: The instructions' texts.
        switches: The run's switches.
        variant: The run and the repeat.
    """
    method = "likelihood" if switches.likelihood else "generation"
    texts = wording.texts(method)
    cycle = variant.repeat if switches.random_instruct else number
    index = cycle % len(texts)
    if dataset.family == "captions" and variant.repeats > 1:
        index = variant.repeat % len(texts)
    elif dataset.family == "captions":
        index = variant.rng(identifier, "instruction").randrange(len(texts))
    instruct: str | None = texts[index] + wording.suffix.get(method, "")
    if item.slot is not None:
        instruct = texts[index].replace("{}", item.slot, 1)
    question = wording.question.get(method, item.question)
    if isinstance(question, tuple):
        question = question[cycle % len(question)]
    if question is None:
        question, instruct = instruct, None
    options, right, targets = (), 0, ()  # type: tuple[str, ...], int, tuple[str, ...]
    if item.options or item.pool:
        options, right = options_of(item, identifier, switches, variant)
    else:
        targets = item.answer if isinstance(item.answer, tuple) else (str(item.answer),)
    return Question(
        item.sample_id,
        str(question),
        options,
        right,
        targets,
        marks_of(switches.option_mark, variant.rng(identifier, "marks")),
        instruct,
        tuple(context_of(dataset, switches, faithful=variant.parity)),
        item.box,
        item.round,
        index,
    )


def context_of(dataset: Dataset, switches: Switches, *, faithful: bool) -> list[Turn]:
    """Returns the in-context turns of a dataset, none where they are off or it has none."""
    if not switches.in_context or not dataset.context:
        return []
    name = "V1c capitalised" if dataset.context == "V1c" and switches.capitalize else dataset.context
    # Single-choice processors have no prefix to put before the example's answer either.
    bare = switches.layout is not None and switches.layout.style == "single"
    return CONTEXTS[name].turns(None if bare else switches.prefix, faithful=faithful)


def messages(question: Question, image: bytes, switches: Switches) -> tuple[Message, ...]:
    """Returns the conversation to send.

    Chat messages by default, the image first and the instruction before the first human turn, as in the reference;
    with a layout, one text after the image.
    """
    if switches.layout is not None:
        text = render(switches.layout, question.record(), question.marks, likelihood=switches.likelihood)
        return (user(image_part(image), text_part(text)),)
    options = None if switches.likelihood or not question.options else question.options
    last = {"from": "human", "value": with_options(question.text, options, question.marks)}
    return chat([*question.history, last], image, question.instruct)


def candidates(question: Question, switches: Switches) -> tuple[str, ...]:
    """Returns the continuations to score: each option as it follows the prompt.

    With a layout, options begin with a blank, "Bot: green": the reference tokenizes them separately, and LLaMA's
    tokenizer adds one. A chat template adds its own blanks.
    """
    if not switches.likelihood:
        return ()
    return question.options if switches.layout is None else tuple(f" {option}" for option in question.options)


def chat(turns: Sequence[Turn], image: bytes, instruct: str | None) -> tuple[Message, ...]:
    """Returns turns as chat messages, the image and the instruction in the first."""
    messages = []
    for index, turn in enumerate(turns):
        if turn["from"] == "assistant":
            messages.append(assistant(turn["value"]))
        elif index:
            messages.append(user(text_part(turn["value"])))
        else:
            text = turn["value"] if instruct is None else f"{instruct} {turn['value']}"
            messages.append(user(image_part(image), text_part(text)))
    return tuple(messages)
