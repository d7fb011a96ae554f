"""Training data as numbers: reads examples from standard input and collates them into batches."""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import torch

from demo_model.architecture import ASSISTANT, END, GRID, IMAGE, IMAGE_END, IMAGE_START, IMAGE_TOKENS, SIDE, USER

IGNORED = -100
NONE = -1
BOUNDS = (12, 24, 44, 72, 110)
"""Questions are padded to the longest between two of these lengths."""


def stream() -> Iterator[dict[str, Any]]:
    """Yields the examples on standard input."""
    with pa.ipc.open_stream(sys.stdin.buffer) as source:
        for batch in source:
            yield from batch.to_pylist()


class Block(NamedTuple):
    """A question with its answer.

    Attributes:
        ids: Its tokens.
        known: Number of tokens of the question.
        asked: Number of tokens before the question mark.
        spelled: For each token the number of the name that ends with it, or `NONE`.
        option: The first token of the option that is the answer, and the one after its last; equal if there is none.
        shown: Number of the name of the drawn option that is the answer, or `NONE`.
    """

    ids: list[int]
    known: int
    asked: int
    spelled: list[int]
    option: tuple[int, int]
    shown: int


@dataclass(frozen=True)
class Read:
    """An example as numbers.

    Attributes:
        kind: Its generator.
        images: Number of images.
        pixels: [images, SIDE, SIDE, 3], uint8; empty if the images are only described.
        prefix: Tokens of the images.
        blocks: Questions with their answers.
        marks: Image, cell and numbers of the names.
    """

    kind: str
    images: int
    pixels: torch.Tensor
    prefix: list[int]
    blocks: list[Block]
    marks: list[tuple[int, int, list[int]]]


class Reader:
    """Turns examples into numbers.

    Args:
        tokenizer: The tokenizer.
        names: Words that marks may use; other words are ignored.
    """

    def __init__(self, tokenizer: Any, names: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._names = {name: number for number, name in enumerate(names)}
        self._cache: dict[str, list[int]] = {}
        (self._mark,) = self.ids("?")
        self._endings: dict[int, list[tuple[list[int], int]]] = defaultdict(list)
        for number, name in enumerate(names):
            for ids in (self.ids(name), self.ids(f" {name}")):
                self._endings[ids[-1]].append((ids, number))

    def ids(self, text: str) -> list[int]:
        """Returns a text's tokens."""
        if text not in self._cache:
            if len(self._cache) > 100_000:
                self._cache.clear()
            self._cache[text] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return self._cache[text]

    def __call__(self, row: dict[str, Any]) -> Read:
        """Returns an example as numbers."""
        drawn = bytearray(b"".join(row["images"]))
        flat = torch.frombuffer(drawn, dtype=torch.uint8) if drawn else torch.empty(0, dtype=torch.uint8)
        blocks = []
        for pair in row["questions"]:
            question = self.ids(pair["question"]) + self.ids(f"{END}{ASSISTANT}")
            ids = question + self.ids(pair["answer"]) + self.ids(END)
            option = self._option(pair["question"], pair["answer"])
            shown = NONE if option[0] < option[1] else self._shown(pair["question"], pair["answer"])
            asking = question.index(self._mark) if self._mark in question else 0
            blocks.append(Block(ids, len(question), asking, self._spelled(ids), option, shown))
        marks = []
        for mark in row["marks"]:
            cell = min(GRID - 1, int(mark["y"] * GRID)) * GRID + min(GRID - 1, int(mark["x"] * GRID))
            known = [self._names[word] for word in mark["words"] if word in self._names]
            marks.append((mark["image"], cell, known))
        count = len(row["images"])
        prefix = self.ids(USER + (IMAGE_START + IMAGE * IMAGE_TOKENS + IMAGE_END) * count)
        return Read(row["kind"], count, flat.view(-1, SIDE, SIDE, 3), prefix, blocks, marks)

    def _option(self, question: str, answer: str) -> tuple[int, int]:
        """Returns the tokens of the option's line if the answer is the option's letter."""
        line = re.search(rf"^\(?{re.escape(answer)}[.)] .*$", question, re.MULTILINE) if len(answer) == 1 else None
        if line is None:
            return 0, 0
        offsets = self._tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        inside = [index for index, (start, end) in enumerate(offsets) if start >= line.start() and end <= line.end()]
        return inside[0], inside[-1] + 1

    def _shown(self, question: str, answer: str) -> int:
        """Returns the name of the region in the image whose letter or number is the answer."""
        if "Which choice" in question:
            return self._names.get(f"choice {answer}", NONE)
        return self._names.get(answer, NONE) if answer in "ABCD" else NONE

    def _spelled(self, ids: list[int]) -> list[int]:
        """Returns, for each token, the longest name that ends with it."""
        spelled = [NONE] * len(ids)
        for index, token in enumerate(ids):
            ending = [one for one in self._endings.get(token, ()) if ids[index + 1 - len(one[0]) : index + 1] == one[0]]
            if ending:
                spelled[index] = max(ending, key=lambda one: len(one[0]))[1]
        return spelled


@dataclass(frozen=True)
class Group:
    """Questions of similar length.

    Attributes:
        examples: Index of the example whose images the question is about: [questions].
        ids: Question and answer, padded on the right: [questions, tokens].
        labels: The next token if it belongs to an answer, else `IGNORED`: [questions, tokens].
        spelled: The name that ends with a token, or `NONE`: [questions, tokens].
        last: The question's last token: [questions].
        asked: Number of tokens before the question mark: [questions].
        option: True for tokens of the option that is the answer: [questions, tokens].
        shown: The name of the drawn option that is the answer, or `NONE`: [questions].
    """

    examples: torch.Tensor
    ids: torch.Tensor
    labels: torch.Tensor
    spelled: torch.Tensor
    last: torch.Tensor
    asked: torch.Tensor
    option: torch.Tensor
    shown: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """Examples that run together, all with the same number of images.

    Attributes:
        pixels: [images, 3, SIDE, SIDE]; empty if the images are only described.
        named: 1 if a name is true of a cell: [images, cells, names].
        prefix: Tokens of an example's images, the same for all: [tokens].
        count: Number of examples.
        groups: Their questions.
    """

    pixels: torch.Tensor
    named: torch.Tensor
    prefix: torch.Tensor
    count: int
    groups: list[Group]


def collate(examples: Sequence[Read], names: int) -> Batch:
    """Collates examples into a batch; questions of similar length form a group."""
    questions = [(row, block) for row, example in enumerate(examples) for block in example.blocks]
    questions.sort(key=lambda one: len(one[1].ids))
    cuts = [bisect_left(questions, bound, key=lambda one: len(one[1].ids)) for bound in (*BOUNDS, math.inf)]
    groups = [_group(questions[start:end]) for start, end in pairwise([0, *cuts]) if start < end]
    images = examples[0].images
    named = torch.zeros((len(examples) * images, IMAGE_TOKENS, names))
    for row, example in enumerate(examples):
        for image, cell, known in example.marks:
            named[row * images + image, cell, known] = 1
    pixels = torch.cat([example.pixels for example in examples]).permute(0, 3, 1, 2).float() / 127.5 - 1
    return Batch(pixels, named, torch.tensor(examples[0].prefix), len(examples), groups)


def _group(questions: Sequence[tuple[int, Block]]) -> Group:
    shape = (len(questions), max(len(block.ids) for _, block in questions))
    ids, labels, spelled = torch.zeros(shape, dtype=torch.long), torch.full(shape, IGNORED), torch.full(shape, NONE)
    option = torch.zeros(shape, dtype=torch.bool)
    for index, (_, block) in enumerate(questions):
        length = len(block.ids)
        ids[index, :length] = torch.tensor(block.ids)
        labels[index, block.known - 1 : length - 1] = torch.tensor(block.ids[block.known :])
        spelled[index, :length] = torch.tensor(block.spelled)
        option[index, slice(*block.option)] = True
    rows, last, until, shown = map(
        torch.tensor,
        zip(*((row, block.known - 1, block.asked, block.shown) for row, block in questions), strict=True),
    )
    return Group(rows, ids, labels, spelled, last, until, option, shown)


def batches(source: Iterator[Read], size: int, names: int) -> Iterator[Batch]:
    """Yields batches of examples in their order; a batch has examples with the same number of images."""
    pools: dict[int, list[Read]] = defaultdict(list)
    for example in source:
        pool = pools[example.images]
        pool.append(example)
        if len(pool) * example.images >= size:
            yield collate(pool, names)
            pool.clear()
