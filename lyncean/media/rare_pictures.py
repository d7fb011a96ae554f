"""Images in other formats than PNG, JPEG and WebP, whose decoders run in a cell (`lyncean.media.cell`).

What a header says is read when an image is opened, and its pixels when they are used, as pillow does.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from PIL import Image, UnidentifiedImageError

from lyncean.media import cell

_MODES = (
    "1", "L", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "La", "RGBa", "I;16",
    "I;16L", "I;16B", "I;16N",
)  # fmt: skip
_PALETTES = ("RGB", "RGBA")
_ORIENTATION = 0x0112
_MOST_BYTES = 3 << 30


class RareImage(Image.Image):
    """An image of which a cell has read the header; it becomes a plain image when its pixels are used."""

    def __init__(self, data: bytes, found: dict[str, Any]) -> None:
        super().__init__()
        self._data = data
        self._mime = found["mime"]
        self._mode, self._size = found["mode"], found["size"]
        self.format, self.info = found["format"], found["info"]

    def get_format_mimetype(self) -> str | None:
        """Returns the media type of the file."""
        return self._mime if isinstance(self._mime, str) else None

    def load(self) -> Any:
        """Decodes the pixels in the cell.

        Raises:
            Exception: One of `lyncean.media.pictures.DAMAGE`.
        """
        with cell.memory(self._data) as file, cell.memory() as result:
            said = cell.called("picture", Image.MAX_IMAGE_PIXELS, descriptors=[file, result])
            found, size, palette = cell.typed(said, _pixels)
            content = memoryview(cell.taken(result, size, _MOST_BYTES))
        try:
            image = Image.frombytes(found["mode"], found["size"], content)
            if palette is not None:
                image.putpalette(palette[1], palette[0])
        except ValueError as error:
            raise ValueError(cell.BROKEN) from error
        image.format, image.info = found["format"], found["info"]
        self.__class__, self.__dict__ = image.__class__, image.__dict__  # type: ignore[assignment]  # as StubImageFile
        return image.load()


def open_image(data: bytes) -> RareImage:
    """Returns an image whose header has been read; errors as in `lyncean.media.pictures.open_image`."""
    with cell.memory(data) as file:
        said = cell.called("picture_header", Image.MAX_IMAGE_PIXELS, descriptors=[file])
    return RareImage(data, cell.typed(said, _facts))


def _facts(said: Any) -> dict[str, Any]:
    """Reads what a cell says of an image.

    Raises:
        UnidentifiedImageError: It is in no format that is read.
        OSError: It is damaged.
        Image.DecompressionBombError: It is larger than any image should be.
    """
    if "unknown" in said:
        raise UnidentifiedImageError(str(said["unknown"]))
    if "damage" in said:
        raise OSError(str(said["damage"]))
    if "bomb" in said:
        raise Image.DecompressionBombError(str(said["bomb"]))
    width, height = (cell.whole(side, 0) for side in said["size"])
    if said["mode"] not in _MODES or width * height > 2 * (Image.MAX_IMAGE_PIXELS or width * height):
        raise ValueError(said["mode"])
    info: dict[Any, Any] = {}
    if said["transparency"] is not None:
        info["transparency"] = _transparency(said["transparency"])
    if said["orientation"] is not None:
        exif = Image.Exif()
        exif[_ORIENTATION] = cell.whole(said["orientation"], 1)
        info["exif"] = exif.tobytes()
    format_, mime = str(said["format"]), said["mime"]
    return {"mode": said["mode"], "size": (width, height), "info": info, "format": format_, "mime": mime}


def _transparency(said: Any) -> int | bytes | tuple[int, ...]:
    if isinstance(said, dict):
        return bytes(said["bytes"])
    return tuple(cell.whole(each, 0) for each in said) if isinstance(said, list) else cell.whole(said, 0)


def _pixels(said: Any) -> tuple[dict[str, Any], int, tuple[str, bytes] | None]:
    found = _facts(said)
    if found["mode"] not in _MODES or (said["palette"] and said["palette"][0] not in _PALETTES):
        raise ValueError(said["palette"])
    palette = (said["palette"][0], bytes(said["palette"][1])) if said["palette"] else None
    return found, cell.whole(said["bytes"], 1), palette


def functions() -> dict[str, Callable[..., Any]]:
    """Returns the functions of a cell that read images."""

    def header(file: int, most: int | None) -> Any:
        return _refused(file, most, _said)

    def picture(file: int, result: int, most: int | None) -> Any:
        def decoded(image: Image.Image) -> Any:
            image.load()
            content = image.tobytes()
            with open(result, "wb", closefd=False) as target:
                target.write(content)
            return _said(image) | {"bytes": len(content), "palette": _palette(image)}

        return _refused(file, most, decoded)

    return {"picture_header": header, "picture": picture}


def _refused(file: int, most: int | None, read: Callable[[Image.Image], Any]) -> Any:
    from lyncean.media import pictures

    Image.MAX_IMAGE_PIXELS = most
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return read(Image.open(io.BytesIO(cell.content(file)), formats=pictures.formats()))
    except UnidentifiedImageError as error:
        return {"unknown": str(error)}
    except Image.DecompressionBombError as error:
        return {"bomb": str(error)}
    except PermissionError:
        raise  # the cell's to tell
    except pictures.DAMAGE as error:
        return {"damage": str(error)}


def _said(image: Any) -> dict[str, Any]:
    from lyncean.media.pictures import orientation

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
    mode = image.palette.mode if image.palette.mode in _PALETTES else "RGB"
    return mode, image.getpalette(mode) or []
