"""Grey images in place of real ones, for a run that shows what a model answers without seeing."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lyncean.pictures import open_image, orientation
from orchestrator.engine.check import check_image
from orchestrator.samples import BadRowError, Call, Part, image_part
from orchestrator.samples import Image as EncodedImage

if TYPE_CHECKING:
    from PIL import Image

_QUARTERS = (5, 6, 7, 8)
"""Values of EXIF's orientation under which width and height change places."""


def blinded(call: Call) -> Call:
    """Returns the call with each image replaced by grey of the same size and format.

    Raises:
        BadRowError: If an image's header cannot be read.
    """
    return replace(
        call,
        messages=tuple(
            replace(message, parts=tuple(_grey_part(part.image) if part.image else part for part in message.parts))
            for message in call.messages
        ),
    )


def _grey_part(image: EncodedImage) -> Part:
    from PIL import Image

    check_image(image.data)
    try:
        with open_image(image.data) as opened:
            size, kind = _seen_size(opened), opened.format or "PNG"
    except (OSError, Image.DecompressionBombError) as error:
        raise BadRowError("bad_image", f"the image cannot be read: {error}") from error
    return image_part(_grey(size, kind))


def _seen_size(image: Image.Image) -> tuple[int, int]:
    """Width and height as a model sees them: servers turn images as EXIF says, unreadable EXIF says nothing."""
    if image.format == "TIFF":
        return image.size  # pillow has turned it
    return (image.height, image.width) if orientation(image) in _QUARTERS else image.size


@lru_cache(maxsize=64)
def _grey(size: tuple[int, int], kind: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", size, (128, 128, 128)).save(buffer, format=kind)
    return buffer.getvalue()
