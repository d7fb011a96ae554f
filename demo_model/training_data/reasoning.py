"""Training data on VisualPuzzles' puzzles: the answer, directly or after its reasons."""

from __future__ import annotations

import random

from demo_model.training_data import Example, Mark, squeezed
from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.visualpuzzles import synthetic as source
from orchestrator.benchmarks.visualpuzzles.prompts import COT, DIRECT, question_block

_SHARES = {"algorithmic": 3, "analogical": 3, "deductive": 4, "inductive": 5, "spatial": 2}


def example(rng: random.Random, number: int, easy: bool) -> Example:
    """Returns a puzzle with several forms of the question for its answer."""
    category = rng.choices(list(_SHARES), list(_SHARES.values()))[0]
    puzzle = source.MAKERS[category](rng)
    width, height = source.WIDTH * ink.SCALE, source.HEIGHT * ink.SCALE
    marks = [Mark(0, x / width, y / height, names) for (x, y), names in puzzle.seen]
    block = question_block(puzzle.question, puzzle.options)
    questions = [("Explain the puzzle.", puzzle.steps)]
    questions.append((f"{block}\n{DIRECT}", puzzle.answer))
    if not easy:
        questions.append((f"{block}\n{COT}", f"{puzzle.steps}\nAnswer: {puzzle.answer}"))
    if puzzle.options and not easy:
        questions.append((block, puzzle.options["ABCD".index(puzzle.answer)]))
    return Example("visualpuzzles", (lambda: squeezed(source.picture(puzzle)),), tuple(questions), tuple(marks))
