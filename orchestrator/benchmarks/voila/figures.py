"""The parts of VOILA's pictograms: heads that tell 14 subjects apart, poses and props that tell 13 actions apart.

Everything is drawn in a cell of 200 by 200 units, y downwards, the ground at 186.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import ImageDraw

Point = tuple[float, float]
SKIN, INK, WHITE, GREY = "#f2c9a0", "#222222", "#ffffff", "#b9bcc2"
GROUND = 186


class Pen:
    """Draws in cell units onto a picture."""

    def __init__(self, draw: ImageDraw.ImageDraw, left: float, top: float, unit: float) -> None:
        self._draw, self._left, self._top, self._unit = draw, left, top, unit

    def within(self, scale: float) -> Pen:
        """Returns a pen for a smaller figure standing on the same ground."""
        return Pen(
            self._draw,
            self._left + 100 * (1 - scale) * self._unit,
            self._top + GROUND * (1 - scale) * self._unit,
            self._unit * scale,
        )

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [(self._left + x * self._unit, self._top + y * self._unit) for x, y in points]

    def line(self, points: Sequence[Point], color: str, width: float) -> None:
        """Draws a line with round joints and ends."""
        placed = self._at(points)
        thick = max(1, round(width * self._unit))
        self._draw.line(placed, fill=color, width=thick, joint="curve")
        for x, y in placed:
            self._draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=color)

    def oval(self, x: float, y: float, rx: float, ry: float, color: str, edge: str | None = INK) -> None:
        """Draws an ellipse about a centre."""
        box = self._at([(x - rx, y - ry), (x + rx, y + ry)])
        self._draw.ellipse((*box[0], *box[1]), fill=color, outline=edge, width=max(1, round(1.5 * self._unit)))

    def shape(self, points: Sequence[Point], color: str, edge: str | None = INK) -> None:
        """Draws a polygon."""
        self._draw.polygon(self._at(points), fill=color, outline=edge, width=max(1, round(1.5 * self._unit)))

    def box(self, x0: float, y0: float, x1: float, y1: float, color: str, edge: str | None = INK) -> None:
        """Draws a rectangle."""
        self.shape([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], color, edge)


@dataclass(frozen=True)
class Look:
    """How a subject is drawn.

    Attributes:
        body: Colour of shirt, dress or fur.
        limbs: Colour of arms.
        legs: Colour of legs.
        head: Draws the head about a centre.
        dress: Whether the body flares out.
        scale: Height of the figure.
        tail: Colour and width of a tail; width 0 is none.
    """

    body: str
    limbs: str
    legs: str
    head: Callable[[Pen, float, float], None]
    dress: bool = False
    scale: float = 1.0
    tail: tuple[str, float] = ("", 0)


def _eyes(pen: Pen, x: float, y: float, spread: float = 10) -> None:
    pen.oval(x - spread, y - 3, 3, 4, INK)
    pen.oval(x + spread, y - 3, 3, 4, INK)


def _smile(pen: Pen, x: float, y: float) -> None:
    pen.line([(x - 8, y + 11), (x - 3, y + 14), (x + 3, y + 14), (x + 8, y + 11)], INK, 2)


def _glasses(pen: Pen, x: float, y: float) -> None:
    for side in (-11, 11):
        pen.oval(x + side, y - 3, 9, 8, "#dff1ff")
    pen.line([(x - 3, y - 3), (x + 3, y - 3)], INK, 2)
    _eyes(pen, x, y, 11)


def person(hair: str, *, female: bool, senior: bool, child: bool) -> Callable[[Pen, float, float], None]:
    """Returns a head: long hair or pigtails for women and girls, a cap for boys, grey and glasses for seniors."""

    def head(pen: Pen, x: float, y: float) -> None:
        size = 33 if child else 28
        if female and child:
            for side in (-1, 1):
                pen.oval(x + side * 41, y + 6, 11, 19, hair)
                pen.shape([(x + side * 30, y - 14), (x + side * 42, y - 22), (x + side * 40, y - 6)], "#e8336d")
        elif female and senior:
            pen.oval(x, y - 36, 15, 13, hair)
        elif female:
            pen.shape([(x - 33, y + 40), (x - 34, y - 10), (x, y - 38), (x + 34, y - 10), (x + 33, y + 40)], hair)
        if not (senior and not female):
            pen.oval(x, y - 6, size + 4, size + 1, hair)
        pen.oval(x, y + 2, size, size, SKIN)
        if senior and not female:
            for side in (-1, 1):
                pen.oval(x + side * 28, y + 2, 7, 12, hair)
            pen.shape([(x - 25, y + 10), (x + 25, y + 10), (x + 16, y + 38), (x, y + 46), (x - 16, y + 38)], hair)
            pen.line([(x - 7, y + 18), (x + 7, y + 18)], "#b04a4a", 3)
        elif child and not female:
            pen.shape([(x - 34, y - 10), (x - 26, y - 34), (x, y - 40), (x + 26, y - 34), (x + 34, y - 10)], "#1f62d0")
            pen.shape([(x + 8, y - 12), (x + 56, y - 10), (x + 52, y - 3), (x + 8, y - 6)], "#174a9e")
        elif not female:
            pen.shape([(x - 28, y - 4), (x - 22, y - 30), (x + 22, y - 30), (x + 28, y - 4), (x, y - 14)], hair)
            pen.line([(x - 11, y + 12), (x, y + 9), (x + 11, y + 12)], hair, 5)
        if senior:
            _glasses(pen, x, y)
        else:
            _eyes(pen, x, y + 2)
        if not (senior and not female):
            _smile(pen, x, y + 3)

    return head


def animal(kind: str, fur: str, face: str) -> Callable[[Pen, float, float], None]:
    """Returns an animal's head, told apart by ears and muzzle first and by colour second."""

    def ears(pen: Pen, x: float, y: float) -> None:
        for side in (-1, 1):
            if kind in ("cat", "fox", "wolf"):
                tip, base = {"cat": (44, 24), "fox": (58, 30), "wolf": (52, 22)}[kind]
                pen.shape([(x + side * 6, y - 20), (x + side * 27, y - tip), (x + side * (base + 2), y - 4)], fur)
                pen.shape(
                    [(x + side * 21, y - tip + 17), (x + side * 27, y - tip), (x + side * 28, y - tip + 18)],
                    INK if kind == "fox" else face,
                )
            elif kind == "rabbit":
                pen.oval(x + side * 13, y - 44, 10, 28, fur)
                pen.oval(x + side * 13, y - 44, 5, 20, "#f5a7b8")
            elif kind == "monkey":
                pen.oval(x + side * 34, y, 13, 14, fur)
                pen.oval(x + side * 34, y, 8, 9, face)
            else:
                size = 14 if kind == "bear" else 10
                if kind != "dog":
                    pen.oval(x + side * 22, y - 24, size, size, fur)
                    pen.oval(x + side * 22, y - 24, size / 2, size / 2, face)

    def head(pen: Pen, x: float, y: float) -> None:
        ears(pen, x, y)
        pen.oval(x, y, 34 if kind == "hamster" else 30, 28, fur)
        if kind == "monkey":
            pen.oval(x - 9, y - 6, 13, 14, face, None)
            pen.oval(x + 9, y - 6, 13, 14, face, None)
            pen.oval(x, y + 12, 21, 14, face)
        elif kind == "dog":
            for side in (-1, 1):
                pen.oval(x + side * 31, y + 6, 10, 25, "#5b3417")
            pen.oval(x, y + 12, 15, 12, face)
            pen.oval(x, y + 24, 6, 9, "#f0607c")
        elif kind in ("fox", "wolf"):
            pen.shape([(x - 30, y + 2), (x - 12, y + 4), (x, y + 36), (x - 20, y + 22)], face)
            pen.shape([(x + 30, y + 2), (x + 12, y + 4), (x, y + 36), (x + 20, y + 22)], face)
            pen.shape([(x - 13, y + 4), (x + 13, y + 4), (x, y + 37)], fur)
            if kind == "wolf":
                for side in (-1, 1):
                    pen.shape([(x + side * 4, y + 26), (x + side * 10, y + 26), (x + side * 7, y + 36)], WHITE)
        elif kind == "hamster":
            for side in (-1, 1):
                pen.oval(x + side * 17, y + 10, 17, 15, face)
            pen.box(x - 4, y + 15, x + 4, y + 24, WHITE)
        elif kind == "bear":
            pen.oval(x, y + 12, 17, 14, face)
        elif kind == "rabbit":
            pen.oval(x, y + 11, 13, 10, face)
            pen.box(x - 5, y + 15, x + 5, y + 26, WHITE)
        if kind in ("cat", "hamster", "rabbit"):
            for side in (-1, 1):
                for rise in (-3, 3):
                    pen.line([(x + side * 13, y + 10), (x + side * 42, y + 10 + 2 * rise)], INK, 1.2)
        _eyes(pen, x, y - 3, 11)
        low = {"fox": 33, "wolf": 34}.get(kind, 8)
        pen.oval(x, y + low, 5 if kind != "bear" else 7, 4, "#d9667b" if kind in ("cat", "rabbit", "hamster") else INK)
        if kind in ("cat", "monkey", "bear"):
            _smile(pen, x, y + 5)

    return head


LOOKS: dict[str, Look] = {
    "female child": Look("#ff7eb3", SKIN, SKIN, person("#7a4a1d", female=True, senior=False, child=True), True, 0.78),
    "man": Look("#2f6fb5", "#2f6fb5", "#2b2f3a", person("#4a2c14", female=False, senior=False, child=False)),
    "woman": Look("#c2304a", SKIN, SKIN, person("#5a2d0c", female=True, senior=False, child=False), True),
    "senior man": Look("#6b7f4e", "#6b7f4e", "#4d4a45", person("#d9d9d9", female=False, senior=True, child=False)),
    "senior woman": Look("#7d5a9e", "#7d5a9e", SKIN, person("#d9d9d9", female=True, senior=True, child=False), True),
    "cat": Look("#f0a23c", "#f0a23c", "#f0a23c", animal("cat", "#f0a23c", "#fbe0b5"), tail=("#f0a23c", 8)),
    "dog": Look("#b9814a", "#b9814a", "#b9814a", animal("dog", "#b9814a", "#f3e3cd"), tail=("#b9814a", 9)),
    "fox": Look("#e2571e", "#e2571e", "#3b2416", animal("fox", "#e2571e", WHITE), tail=("#e2571e", 24)),
    "hamster": Look("#d9a866", "#d9a866", "#d9a866", animal("hamster", "#d9a866", "#fff3df")),
    "monkey": Look("#7a4b28", "#7a4b28", "#7a4b28", animal("monkey", "#7a4b28", "#eac79c"), tail=("#7a4b28", 6)),
    "wolf": Look("#7c8593", "#7c8593", "#7c8593", animal("wolf", "#7c8593", "#e3e6ea"), tail=("#7c8593", 20)),
    "male child": Look(
        "#f4c430", SKIN, "#2a5caa", person("#3a2410", female=False, senior=False, child=True), False, 0.78
    ),
    "bear": Look("#5a3a22", "#5a3a22", "#5a3a22", animal("bear", "#5a3a22", "#c79a6b")),
    "rabbit": Look("#eeeef2", "#dcdce4", "#dcdce4", animal("rabbit", "#eeeef2", WHITE)),
}
"""Singular of a subject -> how it is drawn."""


@dataclass(frozen=True)
class Pose:
    """Where a figure's joints are; a limb may bend at a joint between its ends."""

    head: Point
    neck: Point
    hip: Point
    arms: tuple[Sequence[Point], Sequence[Point]]
    legs: tuple[Sequence[Point], Sequence[Point]]


def figure(pen: Pen, look: Look, pose: Pose) -> None:
    """Draws a subject in a pose."""
    (nx, ny), (hx, hy) = pose.neck, pose.hip
    color, width = look.tail
    if width:
        ends = [(hx - 4, hy - 4), (hx - 30, hy - 2), (hx - 46, hy - 26)]
        pen.line(ends, INK, width + 3)
        pen.line(ends, color, width)
        if width > 12:
            pen.line([ends[-1], (hx - 49, hy - 34)], WHITE if color == "#e2571e" else "#e3e6ea", width - 6)
    for leg in pose.legs:
        pen.line([pose.hip, *leg], INK, 14)
        pen.line([pose.hip, *leg], look.legs, 11)
        pen.oval(leg[-1][0] + 4, leg[-1][1] - 2, 10, 6, INK)
    length = max(1.0, ((hx - nx) ** 2 + (hy - ny) ** 2) ** 0.5)
    across = (-(hy - ny) / length, (hx - nx) / length)
    top, low = (11, 30) if look.dress else (17, 15)
    pen.shape(
        [
            (nx - across[0] * top, ny - across[1] * top),
            (nx + across[0] * top, ny + across[1] * top),
            (hx + across[0] * low, hy + across[1] * low),
            (hx - across[0] * low, hy - across[1] * low),
        ],
        look.body,
    )
    shoulder = (nx + (hx - nx) * 0.15, ny + (hy - ny) * 0.15)
    for arm in pose.arms:
        pen.line([shoulder, *arm], INK, 12)
        pen.line([shoulder, *arm], look.limbs, 9)
        pen.oval(*arm[-1], 6, 6, SKIN if look.tail[1] == 0 and look.limbs == SKIN else look.limbs)
    look.head(pen, *pose.head)
