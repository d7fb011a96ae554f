"""Images of records: base64 inside the JSON, boxes drawn on them, or cut to a box."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw, UnidentifiedImageError

from lyncean.media.pictures import open_image
from orchestrator.benchmarks.reform.datasets import Boxes
from orchestrator.data.images import encoded
from orchestrator.data.rows import DataError
from orchestrator.samples import BadRowError

_COLOURS = ((255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 215, 0))


def decoded(text: Any, where: str) -> bytes | None:
    """Returns the encoded file that a record holds as base64; None if it holds none.

    Raises:
        DataError: It is not base64.
    """
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise DataError(f"{where} holds {type(text).__name__}, not an image in base64")
    try:
        return base64.b64decode("".join(text.rpartition(",")[2].split()), validate=True)
    except (binascii.Error, ValueError):
        raise DataError(f"{where} is not a base64 image: {text[:24]!r}") from None


def shown(data: bytes, boxes: Boxes | None, field: Any) -> bytes:
    """Returns the image as the model is to see it: the file's own bytes, or a PNG with boxes drawn or cut.

    Raises:
        BadRowError: The image cannot be decoded, or a box makes no sense.
    """
    if boxes is None:
        return data
    try:
        with open_image(data) as file:
            image = file.convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise BadRowError("bad_image", f"the image cannot be decoded: {error}") from error
    corners = [_corners(box, boxes) for box in (field if boxes.several else [field])]
    if not boxes.width:
        image = _cut(image, corners[0])
    elif len(corners) > len(_COLOURS):
        raise BadRowError("bad_box", f"{len(corners)} boxes, and colours for {len(_COLOURS)}")
    else:
        draw = ImageDraw.Draw(image)
        for (left, top, right, bottom), colour in zip(corners, _COLOURS, strict=False):
            # The outline is centred on the box, as OpenCV draws it; Pillow draws inwards from its edge.
            out = boxes.width // 2
            draw.rectangle((left - out, top - out, right + out, bottom + out), outline=colour, width=boxes.width)
    return encoded(image)


def _corners(box: Any, boxes: Boxes) -> tuple[int, int, int, int]:
    if not isinstance(box, Sequence) or len(box) != 4:
        raise BadRowError("bad_box", f"a box is four numbers, not {box!r}")
    try:
        x, y, third, fourth = map(float, box)
        right, bottom = (third, fourth) if boxes.corners else (x + third, y + fourth)
        left, top, right, bottom = int(x), int(y), int(right), int(bottom)
    except (TypeError, ValueError, OverflowError):
        raise BadRowError("bad_box", f"a box is four numbers, not {box!r}") from None
    return min(left, right), min(top, bottom), max(left, right), max(top, bottom)


def _cut(image: Image.Image, corners: tuple[int, int, int, int]) -> Image.Image:
    left, top, right, bottom = corners
    inside = (max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height))
    if inside[0] >= inside[2] or inside[1] >= inside[3]:
        raise BadRowError("bad_box", f"the box {list(corners)} cuts nothing out of {image.width}x{image.height} pixels")
    return image.crop(inside)
