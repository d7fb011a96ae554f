from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tool_server.search.hierarchy import MAX_PATCHES, Detection, Found, Patch, Settings, divided, search

SIZE = (1600, 1200)
FIRST, LAST = (100, 80, 140, 120), (1500, 1100, 1540, 1140)
"""Targets in the first and in the last of the sixteen smallest patches."""
GUIDED = Settings()


class Detector:
    """Sees a target in patches up to a width; weak cues of it at a place wherever that place is seen."""

    def __init__(self, target: Patch, cue: Patch | None = None, width: int = 400, score: float = 0.9) -> None:
        self.target, self.cue, self.width, self.score = target, cue, width, score
        self.seen: list[Patch] = []

    def __call__(self, patch: Patch) -> list[Detection]:
        self.seen.append(patch)
        detections = []
        if patch[2] - patch[0] <= self.width and _inside(self.target, patch):
            detections.append(Detection(self.target, self.score))
        if self.cue and _inside(self.cue, patch):
            detections.append(Detection(self.cue, 0.1))
        return detections


def _inside(box: Patch, patch: Patch) -> bool:
    return patch[0] <= box[0] and patch[1] <= box[1] and box[2] <= patch[2] and box[3] <= patch[3]


def _search(detector: Callable[[Patch], Any], settings: Settings = GUIDED, size: tuple[int, int] = SIZE) -> Found:
    return search(size, detector, settings, b"seed")


@pytest.mark.parametrize(
    ("strategy", "target", "cue", "length"),
    [
        ("guided", FIRST, FIRST, 3),
        ("guided", LAST, LAST, 3),
        ("guided", LAST, None, 21),
        # A wrong cue is followed at once, down to its smallest patch; then all patches come in their order.
        ("guided", LAST, FIRST, 21),
        ("guided", FIRST, LAST, 10),
        ("sequential-bfs", FIRST, LAST, 6),
        ("sequential-dfs", FIRST, LAST, 3),
        ("sequential-bfs", LAST, LAST, 21),
        ("sequential-dfs", LAST, LAST, 21),
    ],
)
def test_length_of_a_search(strategy: Any, target: Patch, cue: Patch | None, length: int) -> None:
    detector = Detector(target, cue)
    result = _search(detector, Settings(strategy))
    assert (result.found, result.patches, result.detections) == (True, length, (Detection(target, 0.9),))
    assert len(detector.seen) == length
    assert detector.seen[0] == (0, 0, *SIZE)
    assert len(set(detector.seen)) == length


@pytest.mark.parametrize("strategy", ["random-dfs", "random-bfs"])
def test_random_orders_are_those_of_their_seed(strategy: Any) -> None:
    def order(seed: bytes) -> list[Patch]:
        detector = Detector(LAST, score=0.0)
        assert not search(SIZE, detector, Settings(strategy), seed).found
        return detector.seen

    assert order(b"1") == order(b"1")
    assert len({tuple(order(seed)) for seed in (b"1", b"2", b"3", b"4")}) > 1
    assert sorted(order(b"1")) == sorted(order(b"2"))
    breadth = [patch[2] - patch[0] for patch in order(b"1")]
    assert (breadth == sorted(breadth, reverse=True)) == (strategy == "random-bfs")


def test_a_target_that_the_whole_image_shows_may_be_there_several_times() -> None:
    weak, strong = Detection(FIRST, 0.6), Detection(LAST, 0.8)
    result = _search(lambda _: [weak, Detection((0, 0, 9, 9), 0.5), strong])
    assert result == Found((strong, weak), True, 1)


@pytest.mark.parametrize(("score", "is_found"), [(0.3, True), (0.29, False), (0.5, True)])
def test_the_best_detection_of_a_search_without_success_is_its_guess(score: float, is_found: bool) -> None:
    detector = Detector(LAST, LAST, width=400, score=score)
    result = _search(detector)
    assert result == Found((Detection(LAST, score),), is_found, 3)
    assert len(detector.seen) == 21


def test_nothing_is_found_where_nothing_is_detected() -> None:
    assert _search(lambda _: []) == Found((), False, 0)


@pytest.mark.parametrize(("size", "patches"), [((224, 9000), 1), ((400, 300), 5), ((4000, 1000), 1 + 4 + 16 + 64)])
def test_small_patches_are_not_divided(size: tuple[int, int], patches: int) -> None:
    detector = Detector((0, 0, 1, 1), score=0.0)
    _search(detector, size=size)
    assert len(detector.seen) == patches


def test_a_strip_ends_at_the_bound() -> None:
    detector = Detector((0, 0, 1, 1), score=0.0)
    _search(detector, size=(89_000, 1000))
    assert len(detector.seen) == MAX_PATCHES


@given(st.integers(2, 9000), st.integers(2, 9000), st.integers(0, 99), st.integers(0, 99))
def test_parts_of_a_patch_are_the_patch(width: int, height: int, x: int, y: int) -> None:
    patch = (x, y, x + width, y + height)
    parts = divided(patch)
    assert len(parts) == 4
    assert sum((right - left) * (lower - upper) for left, upper, right, lower in parts) == width * height
    assert all(_inside(part, patch) for part in parts)
    assert parts == sorted(parts, key=lambda part: (part[1], part[0]))
