"""V*'s system as a task: ask, search the missing objects, answer with their crops (sections 3 and 4 of the paper).

The sentences, the crops' locations and the choice by log-likelihood are those of `vstar_bench_eval.py` in the authors'
code. Two differences are inherent to chat models: crops are images instead of a fixed number of features, and
locations are relative to the image padded to a square although not every model pads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lyncean.media.picture_formats import orientation
from lyncean.media.pictures import open_image
from lyncean.vocabulary.facts import FOUND, IOU, SEARCH_LENGTH, TARGETS, TARGETS_FOUND
from orchestrator.samples import Image, Part, ToolResult, text_part
from orchestrator.tools.search import overlap

TOOL = "search"
MISSING = (
    "Sorry, I can not answer the question. Some visual information about the following objects is missing or unclear:"
)
"""Sentence of the authors' model before its list of missing objects, separated by commas."""
FOCUS = "Additional visual information to focus on: "
OUTPUT_TOKENS = 200
MAX_OBJECTS = 16
"""Largest number of objects to search for one answer."""
_MAX_NAME = 200
_FOUND_AT = 0.5
"""Intersection over union above which a target counts as found."""
_TURNED = (5, 6, 7, 8)
"""EXIF orientations that swap width and height."""


@dataclass(frozen=True, slots=True)
class Place:
    """A region that a search returned.

    Attributes:
        name: The searched object.
        box: Left, top, right and bottom in pixels.
        crop: The image of the region.
    """

    name: str
    box: tuple[float, float, float, float]
    crop: Image


@dataclass(frozen=True, slots=True)
class Search:
    """A search.

    Attributes:
        patches: Number of the patch with the best region.
        found: Whether the object was found; if not, the region is a guess.
        places: The regions, the best first.
    """

    patches: float
    found: bool
    places: tuple[Place, ...]


def missing_objects(text: str) -> list[str]:
    """Returns the objects that an answer calls missing; none for any other answer."""
    _, marker, listed = text.rpartition(MISSING)
    if not marker:
        return []
    names = (name.strip() for name in listed.removesuffix(".").split(","))
    return [name[:_MAX_NAME] for name in names if name][:MAX_OBJECTS]


def arguments(names: Iterable[str]) -> list[str]:
    """Returns the arguments of the calls that search objects."""
    return [json.dumps({"object": name}, ensure_ascii=False) for name in names]


def searches(results: Sequence[ToolResult]) -> list[Search]:
    """Parses the tool's results; an error or malformed result counts as a search that found nothing."""
    return [_search(result) for result in results]


def _search(result: ToolResult) -> Search:
    texts = [part.text for part in result.content if not part.image]
    crops = [part.image for part in result.content if part.image]
    try:
        reply: Mapping[str, Any] = json.loads(texts[0]) if texts and not result.is_error else {}
        name, boxes = str(reply["object"]), [tuple(map(float, box)) for box in reply["boxes"]]
        places = tuple(Place(name, _box(box), crop) for box, crop in zip(boxes, crops, strict=True))
        patches = float(reply["patches"])
        if not all(map(math.isfinite, (patches, *(number for box in boxes for number in box)))):
            raise ValueError
        return Search(patches, bool(reply["found"] and places), places)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Search(0, False, ())


def _box(numbers: tuple[float, ...]) -> tuple[float, float, float, float]:
    left, top, right, bottom = numbers
    return left, top, right, bottom


def focused(image: Image, searches: Sequence[Search], question: str) -> tuple[Part, ...]:
    """Returns the question preceded by the search results: names, crops and locations.

    Args:
        image: The searched image.
        searches: The searches.
        question: The question.
    """
    regions = [region for search in searches for region in search.places]
    if not regions:
        return (text_part(question),)
    parts, size, prefix = [], _size(image), FOCUS
    for number, region in enumerate(regions, 1):
        where = ",".join(f"{share:.3f}" for share in _shares(region.box, size))
        parts += [text_part(f"{prefix}{region.name} "), Part(image=region.crop)]
        prefix = f" at location [{where}]{'; ' if number < len(regions) else '.'}"
    return (*parts, text_part(f"{prefix}\n{question}"))


def _shares(box: tuple[float, float, float, float], size: tuple[int, int]) -> list[float]:
    """Returns a box relative to the image padded to a square."""
    side = max(size)
    return [min(max((at + (side - size[axis % 2]) // 2) / side, 0.0), 1.0) for axis, at in enumerate(box)]


def _size(image: Image) -> tuple[int, int]:
    """Returns the width and height of an image as displayed."""
    opened = open_image(image.data)
    turned = opened.format != "TIFF" and orientation(opened) in _TURNED
    return (opened.height, opened.width) if turned else (opened.width, opened.height)


def facts(searches: Sequence[Search], boxes: Sequence[Sequence[float]], *, in_turn: bool) -> dict[str, float]:
    """Returns how well the searches match the boxes of a row; nothing without boxes.

    Args:
        searches: The searches.
        boxes: The boxes: x, y, width and height in pixels.
        in_turn: Whether search i was for box i; otherwise any search may match any box.

    Returns:
        `targets`: number of boxes. `targets_found`: boxes that the best region of a search covers with an intersection
        over union above 0.5, and `found`: their share. `search_length`: mean number of patches examined for these,
        omitted without any. `iou`: largest intersection over union of such a region and a box.
    """
    if not boxes:
        return {}
    lengths, overlaps = [], [0.0]
    for number, (x, y, width, height) in enumerate(boxes):
        hits = [search for search in (searches[number : number + 1] if in_turn else searches) if search.found]
        met = [(search.patches, overlap(search.places[0].box, (x, y, x + width, y + height))) for search in hits]
        overlaps += [share for _, share in met]
        lengths += [patches for patches, share in met if share > _FOUND_AT][:1]
    known = {TARGETS: len(boxes), TARGETS_FOUND: len(lengths), FOUND: len(lengths) / len(boxes)}
    known[IOU] = round(max(overlaps), 6)
    return known | ({SEARCH_LENGTH: sum(lengths) / len(lengths)} if lengths else {})
