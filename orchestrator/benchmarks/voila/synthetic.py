"""A drawn image set for VOILA: pictograms of 4 numbers, 14 subjects and 13 actions.

They stand in for the published photographs, so that everything runs without them; a person can
tell all 728 apart. Figures got with them say nothing about a model's standing on VOILA.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache

from PIL import Image, ImageDraw

from orchestrator.benchmarks.voila.figures import GREY, GROUND, INK, LOOKS, WHITE, Pen, Pose, figure
from orchestrator.benchmarks.voila.rules import ACTIONS, SUBJECTS, Spec

_SEATED = Pose(
    (92, 58), (92, 88), (92, 140), ([(112, 118), (134, 130)], [(116, 112), (146, 126)]), ([(84, 182)], [(104, 182)])
)


def _nothing(_: Pen) -> None:
    pass


def _soccer_back(pen: Pen) -> None:
    pen.box(150, 92, 196, GROUND, "#e9f5e9")
    for step in range(1, 6):
        pen.line([(150, 92 + step * 15), (196, 92 + step * 15)], GREY, 1)
        pen.line([(150 + step * 8, 92), (150 + step * 8, GROUND)], GREY, 1)
    pen.line([(150, GROUND), (150, 92), (196, 92), (196, GROUND)], "#d22222", 4)


def _soccer_front(pen: Pen) -> None:
    pen.oval(160, 168, 16, 16, WHITE)
    pen.shape([(160, 160), (168, 166), (165, 175), (155, 175), (152, 166)], INK)
    for x, y in ((149, 160), (171, 160), (160, 182)):
        pen.oval(x, y, 3, 3, INK)


def _car_back(pen: Pen) -> None:
    pen.shape([(48, 112), (62, 28), (150, 28), (170, 112)], "#cfe8f7")
    pen.line([(48, 112), (62, 26), (150, 26), (170, 112)], "#d01f2e", 6)


def _car_front(pen: Pen) -> None:
    pen.shape([(10, 164), (12, 126), (34, 110), (176, 110), (194, 128), (196, 164)], "#d01f2e")
    pen.line([(106, 112), (106, 160)], "#8c1420", 2)
    pen.oval(142, 98, 4, 20, INK)
    pen.oval(190, 134, 6, 7, "#ffe04a")
    for x in (52, 154):
        pen.oval(x, 164, 22, 22, INK)
        pen.oval(x, 164, 10, 10, GREY)


def _ice_back(pen: Pen) -> None:
    pen.oval(100, 184, 96, 14, "#bfe6ff", "#5aa9d6")
    pen.line([(40, 186), (76, 180)], WHITE, 2)
    pen.line([(120, 190), (160, 182)], WHITE, 2)
    for x, y in ((24, 60), (176, 40), (30, 130)):
        for dx, dy in ((9, 0), (5, 8), (-5, 8)):
            pen.line([(x - dx, y - dy), (x + dx, y + dy)], "#5aa9d6", 2)


def _ice_front(pen: Pen) -> None:
    for x, y in ((104, 182), (40, 152)):
        pen.line([(x - 10, y), (x + 18, y)], WHITE, 6)
        pen.line([(x - 14, y + 7), (x + 24, y + 7), (x + 28, y + 3)], "#49525c", 4)
        pen.line([(x - 6, y), (x - 6, y + 7)], "#49525c", 3)
        pen.line([(x + 12, y), (x + 12, y + 7)], "#49525c", 3)


def _path_back(pen: Pen) -> None:
    pen.shape([(0, 180), (200, 180), (200, 198), (0, 198)], "#d8c7a3", None)
    for x in (12, 36, 60):
        pen.oval(x, 192 - (x // 12 % 2) * 6, 7, 3, "#8f7a50", None)


def _water_front(pen: Pen) -> None:
    pen.box(0, 122, 200, 198, "#3f9be0", None)
    for row, y in enumerate((122, 146, 170)):
        for x in range(-10 + row * 10, 200, 28):
            pen.line([(x, y), (x + 7, y - 6), (x + 14, y), (x + 21, y + 4)], "#d7efff", 4)
    for x, y in ((22, 92), (34, 80), (12, 76)):
        pen.oval(x, y, 4, 6, "#7cc1f2")


def _jump_back(pen: Pen) -> None:
    pen.oval(100, 188, 42, 7, "#9aa0a6", None)
    for x in (70, 100, 130):
        pen.line([(x, 178), (x, 158)], "#e07a00", 4)
        pen.shape([(x - 8, 160), (x + 8, 160), (x, 148)], "#e07a00", None)


def _desk(pen: Pen) -> None:
    pen.box(30, 140, 196, 150, "#a8743e")
    pen.box(40, 150, 50, GROUND, "#8a5c2d")
    pen.box(178, 150, 188, GROUND, "#8a5c2d")


def _typing_front(pen: Pen) -> None:
    _desk(pen)
    pen.shape([(112, 140), (176, 140), (168, 128), (120, 128)], "#3b4048")
    for step in range(5):
        for row in (131, 136):
            pen.box(123 + step * 9, row - 1, 129 + step * 9, row + 2, WHITE, None)
    pen.shape([(166, 128), (176, 140), (198, 72), (188, 66)], "#20242b")
    pen.shape([(170, 124), (175, 131), (193, 76), (187, 72)], "#67c6ff", None)


def _writing_front(pen: Pen) -> None:
    _desk(pen)
    pen.shape([(104, 140), (184, 140), (174, 122), (114, 122)], WHITE)
    for step, y in enumerate((126, 130, 134)):
        pen.line([(118 - step * 2, y), (130, y - 2), (138, y + 1)], "#2846a8", 1.6)
    pen.line([(142, 134), (172, 84)], INK, 11)
    pen.line([(147, 126), (170, 88)], "#ffcf2e", 8)
    pen.line([(170, 88), (174, 80)], "#f08aa0", 8)


def _digging_back(pen: Pen) -> None:
    pen.box(0, 178, 200, 198, "#9c6b3a", None)
    pen.oval(150, 182, 36, 12, "#2d1b0c")
    pen.shape([(4, 182), (20, 152), (36, 144), (52, 156), (62, 182)], "#7a4f27")


def _digging_front(pen: Pen) -> None:
    pen.line([(98, 82), (144, 158)], INK, 8)
    pen.line([(98, 82), (144, 158)], "#c58a45", 5)
    pen.line([(90, 88), (106, 78)], INK, 6)
    pen.shape([(134, 160), (154, 148), (166, 174), (160, 186), (146, 182)], "#8d97a3")


def _carrying_front(pen: Pen) -> None:
    pen.box(58, 4, 142, 46, "#c99a5b")
    pen.box(94, 4, 106, 46, "#e8cf9f", None)
    pen.line([(58, 4), (142, 4), (142, 46), (58, 46), (58, 4)], INK, 2)


def _reading_front(pen: Pen) -> None:
    pen.shape([(100, 122), (58, 110), (54, 158), (100, 170), (146, 158), (142, 110)], "#b3282d")
    pen.shape([(100, 118), (62, 106), (60, 152), (100, 164)], WHITE)
    pen.shape([(100, 118), (138, 106), (140, 152), (100, 164)], WHITE)
    for row in range(4):
        pen.line([(67, 117 + row * 9), (94, 125 + row * 9)], "#666666", 1.6)
        pen.line([(133, 117 + row * 9), (106, 125 + row * 9)], "#666666", 1.6)


def _running_back(pen: Pen) -> None:
    for y, start in ((60, 6), (88, 0), (116, 8), (144, 2)):
        pen.line([(start, y), (start + 34, y)], "#6f7a86", 4)
    pen.line([(0, 190), (200, 190)], "#c8553d", 8)
    pen.line([(0, 190), (200, 190)], WHITE, 1.5)


def _eating_front(pen: Pen) -> None:
    _desk(pen)
    pen.oval(146, 136, 42, 8, WHITE)
    pen.shape([(118, 126), (122, 112), (146, 106), (170, 112), (174, 126)], "#e3a24a")
    pen.box(118, 124, 174, 129, "#4f9e3a", None)
    pen.box(120, 129, 172, 134, "#6d3b1c", None)
    pen.line([(128, 92), (112, 78)], INK, 5)
    pen.line([(128, 92), (112, 78)], GREY, 3)
    for shift in (-4, 0, 4):
        pen.line([(112 + shift / 2, 78 - shift / 2), (105 + shift, 70 - shift)], GREY, 2)


Scene = tuple[Callable[[Pen], None], Pose, Callable[[Pen], None]]
"""What is behind the figure, its pose, and what is before it."""

SCENES: dict[str, Scene] = {
    "playing soccer": (
        _soccer_back,
        Pose(
            (82, 60),
            (82, 90),
            (86, 136),
            ([(58, 108), (44, 94)], [(106, 112), (122, 104)]),
            ([(78, 182)], [(114, 150), (140, 164)]),
        ),
        _soccer_front,
    ),
    "driving a car": (
        _car_back,
        Pose(
            (96, 70),
            (96, 100),
            (96, 140),
            ([(114, 116), (136, 100)], [(118, 120), (142, 108)]),
            ([(96, 150)], [(100, 150)]),
        ),
        _car_front,
    ),
    "ice-skating": (
        _ice_back,
        Pose(
            (122, 56),
            (114, 86),
            (96, 130),
            ([(80, 92), (54, 84)], [(146, 104), (172, 96)]),
            ([(104, 156), (104, 178)], [(66, 140), (42, 148)]),
        ),
        _ice_front,
    ),
    "walking": (
        _path_back,
        Pose(
            (100, 58),
            (100, 88),
            (100, 134),
            ([(82, 112), (76, 134)], [(118, 112), (130, 130)]),
            ([(84, 160), (76, 182)], [(116, 158), (126, 182)]),
        ),
        _nothing,
    ),
    "swimming": (
        _nothing,
        Pose(
            (74, 92),
            (96, 112),
            (150, 124),
            ([(62, 62), (36, 58)], [(84, 130), (62, 136)]),
            ([(168, 130), (184, 120)], [(170, 138), (184, 140)]),
        ),
        _water_front,
    ),
    "jumping": (
        _jump_back,
        Pose(
            (100, 54),
            (100, 80),
            (100, 114),
            ([(72, 68), (58, 38)], [(128, 68), (142, 38)]),
            ([(78, 118), (70, 138)], [(122, 118), (130, 138)]),
        ),
        _nothing,
    ),
    "typing": (_nothing, _SEATED, _typing_front),
    "writing": (_nothing, _SEATED, _writing_front),
    "digging a hole": (
        _digging_back,
        Pose(
            (84, 52),
            (84, 82),
            (78, 132),
            ([(92, 104), (112, 104)], [(100, 118), (124, 126)]),
            ([(66, 158), (62, 180)], [(92, 158), (96, 180)]),
        ),
        _digging_front,
    ),
    "carrying something": (
        _nothing,
        Pose(
            (100, 86),
            (100, 112),
            (100, 150),
            ([(66, 96), (62, 46)], [(134, 96), (138, 46)]),
            ([(90, 184)], [(112, 184)]),
        ),
        _carrying_front,
    ),
    "reading": (
        _nothing,
        Pose(
            (100, 62),
            (100, 92),
            (100, 142),
            ([(66, 118), (58, 138)], [(134, 118), (142, 138)]),
            ([(88, 184)], [(114, 184)]),
        ),
        _reading_front,
    ),
    "running": (
        _running_back,
        Pose(
            (130, 54),
            (120, 82),
            (100, 126),
            ([(92, 96), (76, 116)], [(142, 108), (164, 92)]),
            ([(70, 138), (46, 130)], [(132, 140), (128, 176)]),
        ),
        _nothing,
    ),
    "eating food": (
        _nothing,
        Pose(
            (84, 58),
            (84, 88),
            (84, 140),
            ([(106, 112), (130, 94)], [(104, 124), (118, 132)]),
            ([(78, 182)], [(98, 182)]),
        ),
        _eating_front,
    ),
}
"""Action -> its scene."""

CELLS = {
    0: ((0.5, 0.5, 0.94),),
    1: ((0.26, 0.5, 0.5), (0.74, 0.5, 0.5)),
    2: ((0.26, 0.27, 0.5), (0.74, 0.27, 0.5), (0.5, 0.75, 0.5)),
    3: ((0.26, 0.27, 0.5), (0.74, 0.27, 0.5), (0.26, 0.75, 0.5), (0.74, 0.75, 0.5)),
}
_PAPERS = ("#fffdf6", "#f3f8ff", "#f4fff4", "#fff4f6", "#f8f5ff", "#fff8ea", "#eefcfb", "#f6f6f6", "#fbfff0")


@lru_cache(maxsize=1024)
def draw(spec: Spec, variant: int = 0, size: int = 256) -> bytes:
    """Returns a pictogram as a PNG of `size` by `size` pixels; variants differ in the paper's colour."""
    large = size * 2
    picture = Image.new("RGB", (large, large), _PAPERS[variant % len(_PAPERS)])
    canvas = ImageDraw.Draw(picture)
    back, pose, front = SCENES[ACTIONS[spec.action]]
    look = LOOKS[SUBJECTS[spec.subject][1]]
    for x, y, side in CELLS[spec.number]:
        unit = side * large / 200
        pen = Pen(canvas, x * large - 100 * unit, y * large - 100 * unit, unit)
        pen = pen.within(look.scale * 0.92)
        back(pen)
        figure(pen, look, pose)
        front(pen)
    out = io.BytesIO()
    picture.resize((size, size), Image.Resampling.LANCZOS).save(out, format="PNG")
    return out.getvalue()
