"""Training data on MARVEL's puzzles: the choice that completes the context, and the content of the panels."""

from __future__ import annotations

import random
from functools import partial

from PIL import Image

from demo_model.training_data import Example, Mark, squeezed
from orchestrator.benchmarks.marvel import synthetic
from orchestrator.benchmarks.marvel.benchmark import (
    COARSE_INSTRUCTION,
    FINE_INSTRUCTION,
    avr_instruction,
)
from orchestrator.benchmarks.marvel.image import choice_boxes, context_boxes
from orchestrator.benchmarks.marvel.labels import fine_options

_CELLS = [(pattern, configuration) for pattern, rule in synthetic.RULES.items() for configuration in rule[1]]
_UNNUMBERED = 0.15


def example(rng: random.Random, number: int, easy: bool) -> Example:
    """Returns a puzzle with MARVEL's questions, and simpler ones on single panels."""
    drawn = synthetic.puzzle(rng, *rng.choice(_CELLS))
    numbered = easy or rng.random() >= _UNNUMBERED
    image = partial(_picture, drawn, numbered)
    if easy:
        questions = [_panel(rng, drawn), _panel(rng, drawn), _missing(drawn), _avr(drawn)]
        questions += [_shows(rng, drawn) for _ in range(2)] + [_fine(rng, drawn) for _ in range(3)]
        return Example("marvel", (image,), tuple(questions), tuple(_marks(drawn)))
    if not numbered:
        questions = [(f"{text}\n{COARSE_INSTRUCTION}", str(count)) for text, count in synthetic.counting(drawn)]
        return Example("marvel", (image,), (*questions, _row(drawn, "context")), tuple(_marks(drawn)))
    questions = [_avr(drawn), _missing(drawn), _shows(rng, drawn), *(_fine(rng, drawn) for _ in range(3))]
    questions += [_panel(rng, drawn), _row(drawn, rng.choice(("context", "choices")))]
    return Example("marvel", (image,), tuple(questions), tuple(_marks(drawn)))


def _marks(drawn: synthetic.PuzzleLayout) -> list[Mark]:
    boxes = (
        *context_boxes(drawn.configuration, drawn.count)[: len(drawn.context)],
        *choice_boxes(drawn.width, drawn.configuration),
    )
    panels = (*drawn.context, *drawn.choices)
    names = [f"context panel {index + 1}" for index in range(len(drawn.context))]
    names += [f"choice {index + 1}" for index in range(len(drawn.choices))]
    return [
        Mark(0, (box[0] + box[2]) / 2 / drawn.width, (box[1] + box[3]) / 2 / drawn.height, (name, *_words(panel)))
        for box, name, panel in zip(boxes, names, panels, strict=True)
    ]


def _words(panel: synthetic.Panel) -> tuple[str, ...]:
    names = [panel.shape, "filled" if panel.filled else "empty"] if panel.shape else []
    if panel.corner >= 0:
        names.append(f"corner {panel.corner}")
    if panel.ring:
        names.append(f"ring {panel.ring}")
    if panel.faces:
        names += [f"face {index} of {len(panel.faces)}: {dots}" for index, dots in enumerate(panel.faces)]
    else:
        names.append(f"{panel.dots} dots")
    return tuple(names)


def _avr(drawn: synthetic.PuzzleLayout) -> tuple[str, str]:
    return f"{synthetic.LEAD} {synthetic.COMPLETES}\n{avr_instruction(letters=False)}", str(drawn.answer)


def _missing(drawn: synthetic.PuzzleLayout) -> tuple[str, str]:
    return "What is in the missing panel?", f"{synthetic.described(drawn.choices[drawn.answer - 1])}."


def _shows(rng: random.Random, drawn: synthetic.PuzzleLayout) -> tuple[str, str]:
    index = rng.randrange(len(drawn.choices))
    return f"Which choice shows {synthetic.described(drawn.choices[index])}?", str(index + 1)


def _fine(rng: random.Random, drawn: synthetic.PuzzleLayout) -> tuple[str, str]:
    question, right, wrong = synthetic.fine(rng, drawn.choices)
    first, second = fine_options(question, right, wrong)
    return f"{synthetic.LEAD} {question}\n{FINE_INSTRUCTION.format(first, second)}", right


def _panel(rng: random.Random, drawn: synthetic.PuzzleLayout) -> tuple[str, str]:
    part, panels = rng.choice((("context panel", drawn.context), ("choice", drawn.choices)))
    index = rng.randrange(len(panels))
    return f"What is in {part} {index + 1}?", f"{synthetic.described(panels[index])}."


def _row(drawn: synthetic.PuzzleLayout, part: str) -> tuple[str, str]:
    panels = drawn.context if part == "context" else drawn.choices
    description = "; ".join(f"{number}: {synthetic.described(panel)}" for number, panel in enumerate(panels, 1))
    return f"Describe the {part}.", f"{description}."


def _picture(drawn: synthetic.PuzzleLayout, numbered: bool) -> Image.Image:
    return squeezed(synthetic.picture(drawn, numbered=numbered))
