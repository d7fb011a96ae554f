"""Training data on VisualPuzzles' puzzles: the answer, directly or behind its reasons."""

from __future__ import annotations

import random

from demo_model.training_data import Example, Mark, squeezed
from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.visualpuzzles import synthetic as source
from orchestrator.benchmarks.visualpuzzles.prompts import COT, DIRECT, question_block

_SHARES = {"algorithmic": 3, "analogical": 3, "deductive": 4, "inductive": 5, "spatial": 2}


def example(rng: random.Random, number: int, easy: bool) -> Example:
    """Draws a puzzle and asks for its answer in several ways."""
    category = rng.choices(list(_SHARES), list(_SHARES.values()))[0]
    puzzle = source.MAKERS[category](rng)
    width, height = source.WIDTH * ink.SCALE, source.HEIGHT * ink.SCALE
    marks = [Mark(0, x / width, y / height, words) for (x, y), words in puzzle.seen]
    block = question_block(puzzle.question, puzzle.options)
    asked = [("Explain the puzzle.", puzzle.steps)]
    asked.append((f"{block}\n{DIRECT}", puzzle.answer))
    if not easy:
        asked.append((f"{block}\n{COT}", f"{puzzle.steps}\nAnswer: {puzzle.answer}"))
    if puzzle.options and not easy:
        asked.append((block, puzzle.options["ABCD".index(puzzle.answer)]))
    return Example("visualpuzzles", (lambda: squeezed(source.picture(puzzle)),), tuple(asked), tuple(marks))
