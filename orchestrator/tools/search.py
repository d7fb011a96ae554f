"""Crops of a trajectory compared with the boxes in a row's labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from lyncean.vocabulary.facts import IOU, SEARCH_LENGTH
from orchestrator.tools.pixels import Box
from orchestrator.tools.types import Picture

LABEL = "box"
"""Label that holds the targets' boxes in the first image: x, y, width and height in pixels, ";" between two."""


def search_facts(labels: Mapping[str, str], pictures: Sequence[Picture]) -> dict[str, float]:
    """Returns how well crops met the boxes of an item's label; nothing without one.

    Args:
        labels: The item's.
        pictures: The sample's own images and those of tools, in order.

    Returns:
        `iou`: the largest intersection over union of a crop and a box. `search_length`: the mean over the boxes of the
        number of the first crop that holds a box's middle, from 1; one more than there are crops where none does.
    """
    boxes = _boxes(labels.get(LABEL, ""))
    if not boxes:
        return {}
    crops = regions(pictures)
    overlaps = [overlap(crop, box) for crop in crops for box in boxes]
    lengths = [next((n for n, crop in enumerate(crops, 1) if _holds(crop, box)), len(crops) + 1) for box in boxes]
    return {IOU: round(max(overlaps, default=0.0), 6), SEARCH_LENGTH: sum(lengths) / len(lengths)}


def regions(pictures: Sequence[Picture]) -> list[Box]:
    """Returns the region of the first image that each crop shows, in order; crops of crops count."""

    @cache
    def region(number: int) -> Box | None:
        picture = pictures[number]
        if picture.source is None or picture.box is None or picture.source >= number:
            return None
        if not pictures[picture.source].box:
            return picture.box if picture.source == 0 else None
        outer, size = region(picture.source), picture.source_size
        if outer is None or size is None:
            return None
        x, y = (outer[2] - outer[0]) / size[0], (outer[3] - outer[1]) / size[1]
        left, top, right, bottom = picture.box
        return outer[0] + left * x, outer[1] + top * y, outer[0] + right * x, outer[1] + bottom * y

    return [outline for number in range(len(pictures)) if (outline := region(number))]


def _boxes(label: str) -> list[Box]:
    boxes = []
    for numbers in filter(None, map(str.strip, label.split(";"))):
        try:
            x, y, width, height = (float(number) for number in numbers.split(","))
        except ValueError:
            return []
        boxes.append((x, y, x + width, y + height))
    return boxes


def overlap(one: Box, other: Box) -> float:
    """Returns the intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    both = max(0.0, width) * max(0.0, height)
    return both / (_area(one) + _area(other) - both) if both else 0.0


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _holds(crop: Box, box: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return crop[0] <= x < crop[2] and crop[1] <= y < crop[3]
