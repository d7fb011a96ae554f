"""Decodes images within a cell: the other side of `lyncean.media.rare_pictures`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from PIL import Image, UnidentifiedImageError

from lyncean.media.picture_formats import DAMAGE, formats, orientation

PALETTES = ("RGB", "RGBA")


def picture_header(data: bytes, most: int | None) -> Any:
    """Returns facts of an image, or why there are none; `most` is the largest number of pixels."""
    return _refused(data, most, _said)


def picture(data: bytes, result: int, most: int | None) -> Any:
    """Writes the pixels of an image to the descriptor `result`; returns what `picture_header` does, and the layout."""

    def decoded(image: Image.Image) -> Any:
        image.load()
        content = image.tobytes()
        with open(result, "wb", closefd=False) as target:
            target.write(content)
        return _said(image) | {"bytes": len(content), "palette": _palette(image)}

    return _refused(data, most, decoded)


def _refused(data: bytes, most: int | None, read: Callable[[Image.Image], Any]) -> Any:
    Image.MAX_IMAGE_PIXELS = most
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return read(Image.open(io.BytesIO(data), formats=formats()))
    except UnidentifiedImageError as error:
        return {"unknown": str(error)}
    except Image.DecompressionBombError as error:
        return {"bomb": str(error)}
    except PermissionError:
        raise  # reported by the cell itself
    except DAMAGE as error:
        return {"damage": str(error)}


def _said(image: Any) -> dict[str, Any]:
    transparency, turn = image.info.get("transparency"), orientation(image)
    if isinstance(transparency, bytes):
        transparency = {"bytes": list(transparency)}
    return {
        "format": image.format,
        "mime": image.get_format_mimetype(),
        "mode": image.mode,
        "size": image.size,
        "transparency": transparency,
        "orientation": turn if isinstance(turn, int) and 1 <= turn <= 8 else None,
    }


def _palette(image: Image.Image) -> tuple[str, list[int]] | None:
    if image.palette is None or image.mode not in ("P", "PA"):
        return None
    mode = image.palette.mode if image.palette.mode in PALETTES else "RGB"
    return mode, image.getpalette(mode) or []
