"""Puzzles in MARVEL's schema and layout, drawn from a seed, with known answers.

Each has exactly one choice that continues its rule. The question texts are in the manner of the
data's, not the data's own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw

from orchestrator.benchmarks import drawing as ink
from orchestrator.benchmarks.marvel.image import CHOICE_TOP, PANEL, choice_boxes, context_boxes
from orchestrator.data.rows import Row

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SIZES = {"Two-row": (900, 820, 6), "Matrix": (900, 1000, 9), "Group": (900, 640, 3), "3D": (900, 640, 1)}
"""Configuration -> width, height and context panels; a sequence is as wide as it is long."""


@dataclass(frozen=True)
class Panel:
    """The content of one panel.

    Attributes:
        shape: The large shape, "" for none.
        filled: Whether it is black.
        dots: Dots within the shape, or without a shape.
        corner: Corner of the panel in which a single dot stands, clockwise from top left.
        ring: Where a small ring is: "inside" the shape, "outside" it, or "" for none.
        faces: Dots on the top, front and right face of a cube; on all six faces of a net.
    """

    shape: str = ""
    filled: bool = False
    dots: int = 0
    corner: int = -1
    ring: str = ""
    faces: tuple[int, ...] = ()


Puzzle = tuple[list[Panel], Panel, list[Panel]]
"""Context without the blank panel, the right choice, three wrong ones."""


def _quantities(rng: random.Random, configuration: str, count: int) -> Puzzle:
    if configuration == "Group":
        dots = rng.randint(2, 5)
        shapes = rng.sample(ink.SHAPES[:5], 3)
        wrong = rng.sample([n for n in range(1, 7) if n != dots], 3)
        first, second, third = (Panel(shape=name, dots=dots) for name in shapes)
        return [first, second], third, [replace(third, dots=n) for n in wrong]
    step = 1 if configuration == "Sequence" or rng.random() < 0.5 else 2
    columns = count if configuration == "Sequence" else 3
    starts = [rng.randint(1, 2) for _ in range(count // columns)]
    numbers = [start + step * i for start in starts for i in range(columns)]
    return _with_dots(rng, numbers)


def _mathematical(rng: random.Random, configuration: str, count: int) -> Puzzle:
    if configuration == "Sequence":
        pair = list(rng.choice(((1, 1), (1, 2), (2, 1))))
        while len(pair) < count:
            pair.append(pair[-1] + pair[-2])
        return _with_dots(rng, pair)
    rows = [(rng.randint(1, 4), rng.randint(1, 4)) for _ in range(count // 3)]
    return _with_dots(rng, [number for a, b in rows for number in (a, b, a + b)])


def _with_dots(rng: random.Random, numbers: Sequence[int]) -> Puzzle:
    near = [n for n in range(max(1, numbers[-1] - 2), numbers[-1] + 3) if n != numbers[-1]]
    panels = [Panel(dots=n) for n in numbers]
    return panels[:-1], panels[-1], [Panel(dots=n) for n in rng.sample(near, 3)]


def _temporal(rng: random.Random, configuration: str, count: int) -> Puzzle:
    turn = rng.choice((1, 3))
    columns = count if configuration in ("Sequence", "Group") else 3
    starts = [rng.randrange(4) for _ in range(count // columns)]
    names = rng.sample(ink.SHAPES, count // columns)
    panels = [
        Panel(shape=name, corner=(start + turn * i) % 4)
        for start, name in zip(starts, names, strict=True)
        for i in range(columns)
    ]
    right = panels[-1]
    return panels[:-1], right, [replace(right, corner=(right.corner + i) % 4) for i in (1, 2, 3)]


def _spatial(rng: random.Random, configuration: str, count: int) -> Puzzle:
    places = rng.sample(("inside", "outside"), 2)
    if configuration == "Group":
        panels = [Panel(shape=name, ring=places[0]) for name in rng.sample(ink.SHAPES[:5], count)]
    else:
        name = rng.choice(ink.SHAPES[:5])
        panels = [Panel(shape=name, ring=places[i % 2]) for i in range(count)]
    right = panels[-1]
    other = "outside" if right.ring == "inside" else "inside"
    wrong = [replace(right, ring=other), replace(right, ring=other, filled=True), replace(right, ring=other, dots=1)]
    return panels[:-1], right, wrong


def _geometry(rng: random.Random, configuration: str, count: int) -> Puzzle:
    if configuration == "Group":
        # No star: dots would lie on its edges.
        names = ink.SHAPES[:5]
        one = rng.choice(names)
        panels = [Panel(shape=one, dots=dots) for dots in rng.sample(range(1, 6), count)]
    else:
        names = ink.SHAPES
        cycle = rng.sample(names, 3)
        panels = [Panel(shape=cycle[i % 3], filled=i // 3 % 2 == 1) for i in range(count)]
    right = panels[-1]
    wrong = rng.sample([name for name in names if name != right.shape], 3)
    return panels[:-1], right, [replace(right, shape=name) for name in wrong]


def _cubes(rng: random.Random, configuration: str, count: int) -> Puzzle:
    top, left, front, right, back, bottom = numbers = rng.sample(range(1, 7), 6)
    net = Panel(faces=tuple(numbers))
    # Opposite faces of a net are never seen together, so these three cannot be folded from it.
    wrong = [Panel(faces=faces) for faces in ((top, front, back), (top, left, right), (top, bottom, right))]
    return [net], Panel(faces=(top, front, right)), wrong


RULES: dict[str, tuple[Callable[[random.Random, str, int], Puzzle], tuple[str, ...], str]] = {
    "Temporal Movement": (_temporal, ("Sequence", "Two-row", "Matrix"), "The dot moves from corner to corner."),
    "Spatial Relationship": (_spatial, ("Sequence", "Group"), "It matters whether the ring is inside the shape."),
    "Quantities": (_quantities, ("Sequence", "Two-row", "Matrix", "Group"), "The number of dots follows a rule."),
    "Mathematical": (_mathematical, ("Sequence", "Two-row", "Matrix"), "Each third number is the sum of two."),
    "2D-Geometry": (_geometry, ("Sequence", "Two-row", "Matrix", "Group"), "The shapes follow one another."),
    "3D-Geometry": (_cubes, ("3D",), "The net folds into one of the cubes."),
}
"""Pattern -> how it is made, in which configurations, and its explanation."""


def rows(seed: int) -> Iterator[Row]:
    """Returns puzzles without end; the first 17 hold every pattern and configuration once."""
    cells = [(pattern, configuration) for pattern, rule in RULES.items() for configuration in rule[1]]
    for index in itertools.count():
        pattern, configuration = cells[index % len(cells)]
        yield _row(ink.generator("marvel", seed, index), index + 1, pattern, configuration)


@dataclass(frozen=True)
class PuzzleLayout:
    """A puzzle before it is drawn, of `width` by `height` pixels.

    Attributes:
        context: The panels above, without the blank one.
        blank: Whether a blank panel follows them.
        choices: The four panels below.
        answer: Number of the right one, from 1.
    """

    configuration: str
    width: int
    height: int
    context: tuple[Panel, ...]
    blank: bool
    choices: tuple[Panel, ...]
    answer: int

    @property
    def count(self) -> int:
        """Panels in the context, the blank one included."""
        return len(self.context) + self.blank


def puzzle(rng: random.Random, pattern: str, configuration: str) -> PuzzleLayout:
    """Draws a puzzle of a pattern in a configuration."""
    make, _, _ = RULES[pattern]
    width, height, count = SIZES.get(configuration, (0, 640, 0))
    if not count:
        count = rng.randint(4, 5)
        width = 360 + count * PANEL
    context, right, wrong = make(rng, configuration, count)
    answer = rng.randint(1, 4)
    choices = (*wrong[: answer - 1], right, *wrong[answer - 1 :])
    return PuzzleLayout(configuration, width, height, tuple(context), configuration != "3D", choices, answer)


LEAD = "You are given a puzzle, with its context on top and four choices (marked by 1, 2, 3, or 4) below."
COMPLETES = "Which choice (either 1, 2, 3, or 4) completes the context?"


def counting(drawn: PuzzleLayout) -> list[tuple[str, int]]:
    """Returns the three questions for numbers of panels, and the numbers."""
    blank = ", including the blank one," if drawn.blank else ""
    return [
        (f"You are given a puzzle. How many panels{blank} are there in the context part?", drawn.count),
        ("You are given a puzzle. How many panels are there in the choices part?", 4),
        (f"You are given a puzzle. How many panels{blank} are there in the whole puzzle?", drawn.count + 4),
    ]


def _row(rng: random.Random, number: int, pattern: str, configuration: str) -> Row:
    drawn = puzzle(rng, pattern, configuration)
    question, right, wrong = fine(rng, drawn.choices)
    counts = counting(drawn)
    return ink.synthetic_row(
        {
            "id": number,
            "pattern": pattern,
            "task_configuration": configuration,
            "avr_question": f"{LEAD} {COMPLETES}",
            "explanation": RULES[pattern][2],
            "answer": drawn.answer,
            "f_perception_question": f"{LEAD} {question}",
            "f_perception_answer": right,
            "f_perception_distractor": wrong,
            "c_perception_question_tuple": [text for text, _ in counts],
            "c_perception_answer_tuple": [panels for _, panels in counts],
            "file": f"Marvel/{number}.png",
            "description": [described(panel) for panel in (*drawn.context, *drawn.choices)],
        },
        lambda: ink.png(ink.halved(picture(drawn))),
    )


def described(panel: Panel) -> str:
    """Returns in words what a panel shows."""
    if len(panel.faces) == 6:
        names = ("top", "left", "middle", "right", "far right", "bottom")
        return "a net of a cube: " + ", ".join(f"{n} dots {where}" for n, where in zip(panel.faces, names, strict=True))
    if panel.faces:
        return "a cube with {} dots on its top, {} on its front and {} on its right".format(*panel.faces)
    seen = [f"a {'black' if panel.filled else 'white'} {panel.shape}"] if panel.shape else []
    if panel.corner >= 0:
        seen.append(f"a dot in the {('top left', 'top right', 'bottom right', 'bottom left')[panel.corner]} corner")
    if panel.ring:
        seen.append(f"a ring {panel.ring} it")
    if panel.dots:
        seen.append("1 dot" if panel.dots == 1 else f"{panel.dots} dots")
    return " and ".join(seen)


def fine(rng: random.Random, choices: Sequence[Panel]) -> tuple[str, str, str]:
    """Returns a question on one choice, its answer and the wrong one."""
    index = rng.randrange(4)
    panel = choices[index]
    where = f"choice {index + 1}"
    if panel.faces:
        seen, other = panel.faces[0], panel.faces[1]
        return _either(rng, f"Are there {{}} or {{}} dots on the top face in {where}?", NUMBERS[seen], NUMBERS[other])
    if panel.ring:
        other_place = "outside" if panel.ring == "inside" else "inside"
        return _either(rng, f"Is the ring {{}} or {{}} the {panel.shape} in {where}?", panel.ring, other_place)
    if panel.corner >= 0:
        side, other_side = ("top", "bottom") if panel.corner in (0, 1) else ("bottom", "top")
        return _either(rng, f"Is the dot at the {{}} or {{}} of {where}?", side, other_side)
    if panel.dots:
        other_number = panel.dots + rng.choice((1, -1) if 1 < panel.dots < 10 else (1,) if panel.dots == 1 else (-1,))
        return _either(rng, f"Are there {{}} or {{}} dots in {where}?", NUMBERS[panel.dots], NUMBERS[other_number])
    other_shape = rng.choice([name for name in ink.SHAPES if name != panel.shape])
    return _either(rng, f"Is there a {{}} or a {{}} in {where}?", panel.shape, other_shape)


def _either(rng: random.Random, text: str, right: str, wrong: str) -> tuple[str, str, str]:
    return text.format(*rng.sample((right, wrong), 2)), right, wrong


def picture(drawn: PuzzleLayout, *, numbered: bool = True) -> Image.Image:
    """Returns a puzzle at twice its size, with or without the numbers below the choices."""
    big = Image.new("L", (drawn.width * ink.SCALE, drawn.height * ink.SCALE), 255)
    draw = ImageDraw.Draw(big)
    ink.words(draw, (24, 100), "Context", 52, anchor="lm")
    ink.words(draw, (24, (CHOICE_TOP[drawn.configuration] - 32) * ink.SCALE), "Choices", 52, anchor="lm")
    for box, panel in itertools.zip_longest(context_boxes(drawn.configuration, drawn.count), drawn.context):
        _panel(draw, box, panel or Panel())
    for number, (box, panel) in enumerate(
        zip(choice_boxes(drawn.width, drawn.configuration), drawn.choices, strict=True), 1
    ):
        _panel(draw, box, panel)
        if numbered:
            ink.words(draw, (box[0] + box[2], (box[3] + 26) * ink.SCALE), str(number), 60)
    return big


def _panel(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], panel: Panel) -> None:
    left, top, right, bottom = (side * ink.SCALE for side in box)
    draw.rectangle((left, top, right, bottom), 255, 0, 8)
    center = ((left + right) / 2, (top + bottom) / 2)
    if len(panel.faces) == 6:
        _net(draw, center, panel.faces)
    elif panel.faces:
        _cube(draw, center, panel.faces)
    if panel.shape:
        fill = 0 if panel.filled else None
        ink.shape(draw, panel.shape, center, 110 if panel.corner < 0 and panel.ring != "outside" else 80, fill=fill)
    if panel.corner >= 0:
        x = left + 45 if panel.corner in (0, 3) else right - 45
        ink.dot(draw, (x, top + 45 if panel.corner in (0, 1) else bottom - 45), 22)
    if panel.ring:
        spot = center if panel.ring == "inside" else (right - 50, top + 50)
        draw.ellipse((spot[0] - 26, spot[1] - 26, spot[0] + 26, spot[1] + 26), 255, 0, 6)
    for point in _spots(panel.dots, center, 42 if panel.shape else 70, low=panel.ring != ""):
        ink.dot(draw, point, 13 if panel.shape else 17)


def _spots(count: int, center: ink.Point, step: float, *, low: bool = False) -> Iterator[ink.Point]:
    """Returns places for dots in rows of up to four around the center."""
    columns = min(4, 1 if count == 1 else 2 if count <= 4 else 3 if count <= 9 else 4)
    lines = -(-count // columns)
    for i in range(count):
        in_line = min(columns, count - i // columns * columns)
        x = center[0] + (i % columns - (in_line - 1) / 2) * step
        yield x, center[1] + (i // columns - (lines - 1) / 2) * step + (60 if low else 0)


def _net(draw: ImageDraw.ImageDraw, center: ink.Point, faces: Sequence[int]) -> None:
    side = 120
    for (column, line), dots in zip(((0, -1), (-1, 0), (0, 0), (1, 0), (2, 0), (0, 1)), faces, strict=True):
        middle = (center[0] + (column - 0.5) * side, center[1] + line * side)
        half = side / 2
        draw.rectangle((middle[0] - half, middle[1] - half, middle[0] + half, middle[1] + half), 255, 0, 5)
        for point in _spots(dots, middle, 36):
            ink.dot(draw, point, 11)


def _cube(draw: ImageDraw.ImageDraw, center: ink.Point, faces: Sequence[int]) -> None:
    side, slant = 170, 80
    x, y = center[0] - (side + slant) / 2, center[1] - (side - slant) / 2
    edges = (
        ((x, y), (side, 0), (slant, -slant)),
        ((x, y), (side, 0), (0, side)),
        ((x + side, y), (slant, -slant), (0, side)),
    )
    for ((x0, y0), (ax, ay), (bx, by)), dots in zip(edges, faces, strict=True):
        draw.polygon([(x0, y0), (x0 + ax, y0 + ay), (x0 + ax + bx, y0 + ay + by), (x0 + bx, y0 + by)], 255, 0, 6)
        for u, v in _spots(dots, (0.5, 0.5), 0.3):
            ink.dot(draw, (x0 + u * ax + v * bx, y0 + u * ay + v * by), 11)
