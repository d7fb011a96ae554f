"""The search of V*'s authors: examines patches of an image, the most promising first, until one shows the target.

A patch without the target is divided into four, down to a quarter of the image's shorter side. Source: section 4.2 of
arXiv 2312.14135 and `visual_search.py` of its code, but for the cues: there they are heat maps and the common sense of
a model of its own; here the detector's weaker detections in a child make it promising.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels of the whole image."""
Patch = tuple[int, int, int, int]
"""Left, top, right and bottom in whole pixels; right and bottom are exclusive."""
Strategy = Literal["guided", "random-dfs", "random-bfs", "sequential-dfs", "sequential-bfs"]
"""Order of patches: by the detector, or a baseline of table 3 of the paper."""

LEAST_SIDE = 224
"""Patches with a shorter side up to this are not divided, nor those down to a quarter of the image's shorter side."""
MAX_PATCHES = 1024
"""Maximum patches to examine: a photo has 21 or a few more; only a very long strip has this many."""
_QUARTER = 4
_LONG = 2
"""Ratio of the sides from which a patch is divided along its longer side alone."""


class Detection(NamedTuple):
    """A detection of the target.

    Attributes:
        box: Its box.
        score: Its confidence, from 0 to 1.
    """

    box: Box
    score: float


Detect = Callable[[Patch], Sequence[Detection]]
"""Returns a detector's detections in a patch, in pixels of the whole image, weak ones included."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Strategy and thresholds of a search.

    Attributes:
        strategy: The order of patches.
        threshold: Confidence above which a detection ends the search.
        fallback: Confidence from which the best detection counts as the target if none exceeded the threshold.
    """

    strategy: Strategy = "guided"
    threshold: float = 0.5
    fallback: float = 0.3


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search.

    Attributes:
        detections: The target's detections, the best first: several only if the whole image shows them. For a target
            that was not found, the best guess; empty if nothing was detected.
        found: Whether the target was found.
        patches: Number, from 1, of the patch that shows the best detection: the search length.
    """

    detections: tuple[Detection, ...]
    found: bool
    patches: int


@dataclass(slots=True)
class _Node:
    patch: Patch
    level: int
    parent: _Node | None
    detections: Sequence[Detection] = field(default=())


def search(size: tuple[int, int], detect: Detect, settings: Settings, seed: bytes) -> Found:
    """Searches an image.

    Args:
        size: Width and height in pixels.
        detect: The detector.
        settings: Strategy and thresholds.
        seed: Seed of the random strategies.
    """
    least = max(math.ceil(min(size) / _QUARTER), LEAST_SIDE)
    waiting = _Waiting(settings.strategy, random.Random(seed))
    waiting.add([(0.0, _Node((0, 0, *size), 1, None))])
    best, best_patch = None, 0
    for visited in range(1, MAX_PATCHES + 1):
        node = waiting.next()
        if node is None:
            break
        node.detections = detect(node.patch)
        top = max(node.detections, key=lambda one: one.score, default=None)
        if top and top.score > settings.threshold:
            return Found(_targets(node, top, settings.threshold), True, visited)
        if top and (best is None or top.score > best.score):
            best, best_patch = top, visited
        left, upper, right, lower = node.patch
        if min(right - left, lower - upper) > least:
            waiting.add([(promise(node, child), _Node(child, node.level + 1, node)) for child in divided(node.patch)])
    return Found((best,) if best else (), best is not None and best.score >= settings.fallback, best_patch)


def _targets(node: _Node, top: Detection, threshold: float) -> tuple[Detection, ...]:
    """Returns the detections that end a search: all above the threshold in the whole image, else the best one."""
    if node.parent:
        return (top,)
    return tuple(sorted((one for one in node.detections if one.score > threshold), key=lambda one: -one.score))


def divided(patch: Patch) -> list[Patch]:
    """Returns the four parts of a patch, row by row; the last of a row or column has the remaining pixels."""
    left, top, right, bottom = patch
    width, height = right - left, bottom - top
    columns, rows = (1, 4) if height >= _LONG * width else (4, 1) if width >= _LONG * height else (2, 2)
    xs = [*(left + number * (width // columns) for number in range(columns)), right]
    ys = [*(top + number * (height // rows) for number in range(rows)), bottom]
    return [(x, y, xs[i + 1], ys[j + 1]) for j, y in enumerate(ys[:-1]) for i, x in enumerate(xs[:-1])]


def promise(node: _Node, child: Patch) -> float:
    """Returns a child's rank: its share of the cues of each patch around it, weighted by a quarter for each level.

    The cue of a detection is its squared confidence, so that many weak ones do not outweigh a strong one.
    """
    total, around = 0.0, node
    while True:
        cues = [(one.box, one.score**2) for one in around.detections]
        if sum_of_cues := math.fsum(cue for _, cue in cues):
            total += math.fsum(cue for box, cue in cues if _holds(child, box)) / sum_of_cues / 4**around.level
        if around.parent is None:
            return total
        around = around.parent


def _holds(patch: Patch, box: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return patch[0] <= x < patch[2] and patch[1] <= y < patch[3]


class _Waiting:
    """Patches still to be examined, in a strategy's order; ties go to the patch that was added first."""

    def __init__(self, strategy: Strategy, rng: random.Random) -> None:
        self._strategy, self._rng = strategy, rng
        self._heap: list[tuple[float, int, _Node]] = []
        self._added = 0

    def add(self, nodes: list[tuple[float, _Node]]) -> None:
        if self._strategy.startswith("random"):
            self._rng.shuffle(nodes)
        if self._strategy.endswith("dfs"):
            nodes.reverse()
        for score, node in nodes:
            self._added += 1
            order = -self._added if self._strategy.endswith("dfs") else self._added
            rank = -score if self._strategy == "guided" else 0.0
            heapq.heappush(self._heap, (rank, order, node))

    def next(self) -> _Node | None:
        return heapq.heappop(self._heap)[2] if self._heap else None
