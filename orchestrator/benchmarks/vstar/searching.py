"""V*'s system as a task: ask, search what the model misses, answer with crops of it (sections 3 and 4 of the paper).

The sentences, the crops' places and the choice by log-likelihood are those of `vstar_bench_eval.py` of the authors'
code. Two things cannot be had of a model behind a conversation: crops are images where theirs are features of fixed
number, and the places, which are shares of the image padded to a square, are told although not every model pads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lyncean.media.pictures import open_image, orientation
from lyncean.vocabulary.facts import FOUND, IOU, SEARCH_LENGTH, TARGETS, TARGETS_FOUND
from orchestrator.samples import Image, Part, ToolResult, text_part
from orchestrator.tools.search import overlap

TOOL = "search"
MISSING = (
    "Sorry, I can not answer the question. Some visual information about the following objects is missing or unclear:"
)
"""What the authors' model says before it lists the objects that it does not see, separated by commas."""
FOCUS = "Additional visual information to focus on: "
OUTPUT_TOKENS = 200
MAX_OBJECTS = 16
"""Objects of an answer that are searched."""
_MAX_NAME = 200
_FOUND_AT = 0.5
"""Intersection over union above which a target counts as found."""
_TURNED = (5, 6, 7, 8)
"""Orientations of EXIF by which the sides are swapped."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place that a search returned.

    Attributes:
        name: The object that was searched.
        box: Left, top, right and bottom in pixels.
        crop: What is there.
    """

    name: str
    box: tuple[float, float, float, float]
    crop: Image


@dataclass(frozen=True, slots=True)
class Search:
    """A search.

    Attributes:
        patches: Number of the patch that shows the best place.
        found: Whether the object was found there, and is not a guess.
        places: The places, the best first.
    """

    patches: float
    found: bool
    places: tuple[Place, ...]


def missing_objects(text: str) -> list[str]:
    """Returns the objects that an answer says are missing; none where it says something else."""
    _, said, listed = text.rpartition(MISSING)
    if not said:
        return []
    names = (name.strip() for name in listed.removesuffix(".").split(","))
    return [name[:_MAX_NAME] for name in names if name][:MAX_OBJECTS]


def arguments(names: Iterable[str]) -> list[str]:
    """Returns the arguments of the calls that search objects."""
    return [json.dumps({"object": name}, ensure_ascii=False) for name in names]


def searches(results: Sequence[ToolResult]) -> list[Search]:
    """Returns what the tool said of each search; one that is an error, or in another form, found nothing."""
    return [_search(result) for result in results]


def _search(result: ToolResult) -> Search:
    texts = [part.text for part in result.content if not part.image]
    crops = [part.image for part in result.content if part.image]
    try:
        told: Mapping[str, Any] = json.loads(texts[0]) if texts and not result.is_error else {}
        name, boxes = str(told["object"]), [tuple(map(float, box)) for box in told["boxes"]]
        places = tuple(Place(name, _box(box), crop) for box, crop in zip(boxes, crops, strict=True))
        patches = float(told["patches"])
        if not all(map(math.isfinite, (patches, *(number for box in boxes for number in box)))):
            raise ValueError
        return Search(patches, bool(told["found"] and places), places)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Search(0, False, ())


def _box(numbers: tuple[float, ...]) -> tuple[float, float, float, float]:
    left, top, right, bottom = numbers
    return left, top, right, bottom


def focused(image: Image, found: Sequence[Search], question: str) -> tuple[Part, ...]:
    """Returns the question after what was found for it: names, crops and where they are.

    Args:
        image: The image that was searched.
        found: The searches.
        question: The question.
    """
    places = [place for search in found for place in search.places]
    if not places:
        return (text_part(question),)
    parts, size, words = [], _size(image), FOCUS
    for number, place in enumerate(places, 1):
        where = ",".join(f"{share:.3f}" for share in _shares(place.box, size))
        parts += [text_part(f"{words}{place.name} "), Part(image=place.crop)]
        words = f" at location [{where}]{'; ' if number < len(places) else '.'}"
    return (*parts, text_part(f"{words}\n{question}"))


def _shares(box: tuple[float, float, float, float], size: tuple[int, int]) -> list[float]:
    """Returns a box in shares of the image padded to a square."""
    side = max(size)
    return [min(max((at + (side - size[axis % 2]) // 2) / side, 0.0), 1.0) for axis, at in enumerate(box)]


def _size(image: Image) -> tuple[int, int]:
    """Returns width and height of an image as it is shown."""
    opened = open_image(image.data)
    turned = opened.format != "TIFF" and orientation(opened) in _TURNED
    return (opened.height, opened.width) if turned else (opened.width, opened.height)


def facts(found: Sequence[Search], boxes: Sequence[Sequence[float]], *, in_turn: bool) -> dict[str, float]:
    """Returns how well searches met the boxes of a row; nothing without boxes.

    Args:
        found: The searches.
        boxes: The boxes: x, y, width and height in pixels.
        in_turn: Whether each box was searched by the search at its place; else any may have found it.

    Returns:
        `targets`: how many boxes there are. `targets_found`: those that the best place of a search meets with an
        intersection over union above 0.5, and `found`: their share. `search_length`: the mean number of patches that
        were looked at for these, left out where there are none. `iou`: the largest intersection over union of such a
        place and a box.
    """
    if not boxes:
        return {}
    lengths, overlaps = [], [0.0]
    for number, (x, y, width, height) in enumerate(boxes):
        own = [search for search in (found[number : number + 1] if in_turn else found) if search.found]
        met = [(search.patches, overlap(search.places[0].box, (x, y, x + width, y + height))) for search in own]
        overlaps += [share for _, share in met]
        lengths += [patches for patches, share in met if share > _FOUND_AT][:1]
    known = {TARGETS: len(boxes), TARGETS_FOUND: len(lengths), FOUND: len(lengths) / len(boxes)}
    known[IOU] = round(max(overlaps), 6)
    return known | ({SEARCH_LENGTH: sum(lengths) / len(lengths)} if lengths else {})
