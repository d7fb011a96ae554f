"""Records in the schemas of ReForm-Eval's files: coloured shapes and words, one image each."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Iterator
from typing import Any

from PIL import Image, ImageDraw

from orchestrator.benchmarks.reform.datasets import DATASETS, Dataset
from orchestrator.benchmarks.reform.families import FAMILIES
from orchestrator.benchmarks.reform.files import FIRST_ROUND, row_of
from orchestrator.data.images import encoded
from orchestrator.data.rows import Row

COLOURS = ("red", "green", "blue", "orange", "purple", "black")
SHAPES = ("circle", "square", "triangle")
WORDS = ("open", "exit", "stop", "sale", "taxi", "hotel", "coffee", "no parking")
COUNTS = tuple(range(11))
QUESTIONS = ("what colour is the shape", "what shape is it", "is the ground white?", "is there a word in the image")
ANSWERS = (*COLOURS, *SHAPES, "yes", "no", "maybe", "not sure")
SIZE = 64

Record = dict[str, Any]


def rows(task: str, seed: int) -> Iterator[Row]:
    """Draws the rows of a task, endlessly."""
    dataset = DATASETS[task]
    rounds = 0
    for number, record in enumerate(records(dataset, seed)):
        row = row_of(record, number, dataset, {**shared(dataset), FIRST_ROUND: rounds}, "synthetic")
        rounds += len(record.get("dialog", ()))
        yield row


def shared(dataset: Dataset) -> dict[str, Any]:
    """Returns what a dataset's file holds once for all records."""
    if dataset.family == "clevr":
        return {"instructs": tuple(f"Answer the question about the shapes, wording {number}." for number in range(6))}
    if dataset.family == "dialog":
        return {"questions": QUESTIONS, "answers": ANSWERS}
    if dataset.family == "counting" or dataset.kind == "counting":
        return {"choice": tuple(str(count) for count in COUNTS) if dataset.kind else COUNTS}
    return {"choice": COLOURS} if dataset.kind else {}


def records(dataset: Dataset, seed: int) -> Iterator[Record]:
    """Draws records of a dataset in the upstream schema, TDIUC's with their annotation in them."""
    rng = random.Random(f"{seed}|{dataset.name}")
    number = 0
    while True:
        yield _record(dataset, rng, number)
        number += 1


def _record(dataset: Dataset, rng: random.Random, number: int) -> Record:
    colour, shape, word = rng.choice(COLOURS), rng.choice(SHAPES), rng.choice(WORDS)
    image = base64.b64encode(_drawn(colour, shape, word)).decode()
    options = _options(rng, COLOURS, colour)
    index = options.index(colour)
    question = f"What colour is the {shape}?"
    key = FAMILIES[dataset.family].image[0]
    box = [8, 8, 40, 40] if not (dataset.boxes and dataset.boxes.corners) else [8, 8, 48, 48]
    boxed = {"bbox": [box, [2, 2, 10, 10]] if dataset.boxes and dataset.boxes.several else box}
    vqa = {"question_id": number, "question": question, "answer": colour, "answer_options": options}
    stored = {"question_id": f"{dataset.name}_{number}", "answer": index, "answer_options": options, **boxed}
    reason = f"The {shape} is filled with {colour}."
    reasons = [f"The {shape} is filled with {other}." for other in options]
    text = {"question_id": number, "question": [f"What does it say ({way})?" for way in "abcde"], "answer_txt": word}
    records: dict[str, Record] = {
        "classification": {"id": number, "question": question, "answer": index, "options": options},
        "tdiuc": {
            "question_id": 1000 + number,
            "question": question,
            "answers": [
                {
                    "answer": "yes"
                    if number % 4 == 3
                    else str(rng.choice(COUNTS))
                    if dataset.kind == "counting"
                    else colour
                }
            ],
            "ans_source": "synthetic",
        },
        "counting": {"Question": f"How many {shape}s?", "Answer": rng.choice(COUNTS), "Resolved_COCO_category": shape},
        "medic": {"gt": index, "options": options},
        "refcoco": {"id": number, "region": [[8, 8, 48, 48]], "options": options, "gt": index},
        "itm": {"gt": number % 2, "anno": f"a {colour} {shape}" if number % 2 else f"a {word} sign"},
        "its": {"gt": index, "anno": [f"a {other} {shape}" for other in options]},
        "wikihow": {"gt": index, "method": f"draw a {shape}", "title": "drawing", "options": reasons},
        "snli_ve": {"gt": number % 3, "anno": f"the {shape} is {colour}"},
        "captions": {
            "annos": [f"a {colour} {shape}", f"a {shape} filled with {colour}", f"{colour} {shape} and {word}"]
        },
        "vqa": vqa,
        "kvqa": {**vqa, "context": f" A {shape} was painted. "},
        "vqra": {**vqa, "rationale": reason},
        "vqar": {**vqa, "rationale": reason, "rationale_options": reasons},
        "winoground": {**vqa, "answer": reason, "answer_options": reasons},
        "mocheg": {
            "instance_id": f"claim-{number}",
            "claim": f" The {shape} is {colour}. ",
            "text_evidence": f"Painters like {colour}.\n",
            "answer": "supported",
            "answer_options": ["supported", "refuted", "not enough information"],
        },
        "objects": {**stored, "question": question},
        "clevr": {**stored, "question": question},
        "vsr": {**stored, "question": [f"{question} ({way})" for way in "abcde"]},
        "wordings": {**stored, "questions": [f"{question} ({way})" for way in "abcde"]},
        "words": {**text, **boxed},
        "key_information": {**text, "question": f'what is "{shape}" information in the image?'},
        "text_questions": {"question_id": number, "question": "What does it say?", "answer": word},
        "dialog": {
            "image_id": 500 + number,
            "dialog": [_round(rng, colour, shape, at) for at in range(len(QUESTIONS))],
        },
    }
    return {**records[dataset.family], key: image}


def _round(rng: random.Random, colour: str, shape: str, at: int) -> Record:
    answer = (colour, shape, "yes", "yes")[at]
    options = _options(rng, (COLOURS, SHAPES, ANSWERS[-4:], ANSWERS[-4:])[at], answer)
    return {
        "question": at,
        "answer": ANSWERS.index(answer),
        "answer_options": [ANSWERS.index(option) for option in options],
    }


def _options(rng: random.Random, candidates: Iterable[str], answer: str) -> list[str]:
    others = [candidate for candidate in candidates if candidate != answer]
    options = [*rng.sample(others, min(3, len(others))), answer]
    rng.shuffle(options)
    return options


def _drawn(colour: str, shape: str, word: str) -> bytes:
    image = Image.new("RGB", (SIZE, SIZE), "white")
    draw = ImageDraw.Draw(image)
    area = (12, 12, 44, 44)
    if shape == "circle":
        draw.ellipse(area, fill=colour)
    elif shape == "square":
        draw.rectangle(area, fill=colour)
    else:
        draw.polygon([(28, 12), (12, 44), (44, 44)], fill=colour)
    draw.text((4, 50), word, fill="black")
    return encoded(image)
