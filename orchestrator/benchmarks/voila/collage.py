"""One picture of three: VOILA's other form of input."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from lyncean.pictures import open_image

GAP = 50
"""White columns between two images, in pixels."""


def collage(images: Sequence[bytes]) -> bytes:
    """Returns images side by side as an RGB PNG.

    Each is scaled (Lanczos, aspect kept, width rounded down) to the largest height; white gaps
    of `GAP` pixels stand between them and none around them.

    Args:
        images: Encoded images.

    Raises:
        OSError: One cannot be decoded.
    """
    opened = [open_image(data).convert("RGB") for data in images]
    height = max(image.height for image in opened)
    scaled = [
        image.resize((max(1, int(image.width * height / image.height)), height), Image.Resampling.LANCZOS)
        for image in opened
    ]
    canvas = Image.new("RGB", (sum(image.width for image in scaled) + GAP * (len(scaled) - 1), height), "white")
    left = 0
    for image in scaled:
        canvas.paste(image, (left, 0))
        left += image.width + GAP
    out = io.BytesIO()
    canvas.save(out, format="PNG")
    return out.getvalue()
