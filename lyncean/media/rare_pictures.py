"""Images in formats other than PNG, JPEG and WebP, decoded in a cell (`lyncean.media.cell`).

As in pillow, opening reads the header, and the first use decodes the pixels.
"""

from __future__ import annotations

from typing import Any

from PIL import Image, UnidentifiedImageError

from lyncean.media import cell
from lyncean.media.decoded_pictures import PALETTES
from lyncean.media.picture_formats import ORIENTATION

_MODES = (
    "1", "L", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "La", "RGBa", "I;16",
    "I;16L", "I;16B", "I;16N",
)  # fmt: skip
_MOST_BYTES = 3 << 30


class RareImage(Image.Image):
    """An image whose header a cell has read; it turns into a plain image when its pixels are used."""

    def __init__(self, data: bytes, header: dict[str, Any]) -> None:
        super().__init__()
        self._data = data
        self._mime = header["mime"]
        self._mode, self._size = header["mode"], header["size"]
        self.format, self.info = header["format"], header["info"]

    def get_format_mimetype(self) -> str | None:
        """Returns the media type of the file."""
        return self._mime if isinstance(self._mime, str) else None

    def load(self) -> Any:
        """Decodes the pixels in the cell.

        Raises:
            Exception: One of `lyncean.media.picture_formats.DAMAGE`.
        """
        with cell.memory(self._data) as file, cell.memory() as result:
            reply = cell.called("picture", Image.MAX_IMAGE_PIXELS, descriptors=[file, result])
            header, size, palette = cell.typed(reply, _pixels)
            content = memoryview(cell.taken(result, size, _MOST_BYTES))
        try:
            image = Image.frombytes(header["mode"], header["size"], content)
            if palette is not None:
                image.putpalette(palette[1], palette[0])
        except ValueError as error:
            raise ValueError(cell.BROKEN) from error
        image.format, image.info = header["format"], header["info"]
        self.__class__, self.__dict__ = image.__class__, image.__dict__  # type: ignore[assignment]  # as StubImageFile
        return image.load()


def open_image(data: bytes) -> RareImage:
    """Returns an image whose header has been read; errors as in `lyncean.media.pictures.open_image`."""
    with cell.memory(data) as file:
        reply = cell.called("picture_header", Image.MAX_IMAGE_PIXELS, descriptors=[file])
    return RareImage(data, cell.typed(reply, _facts))


def _facts(value: Any) -> dict[str, Any]:
    """Parses a cell's facts of an image.

    Raises:
        UnidentifiedImageError: Its format is not supported.
        OSError: It is damaged.
        Image.DecompressionBombError: It is too large for any use.
    """
    if "unknown" in value:
        raise UnidentifiedImageError(str(value["unknown"]))
    if "damage" in value:
        raise OSError(str(value["damage"]))
    if "bomb" in value:
        raise Image.DecompressionBombError(str(value["bomb"]))
    width, height = (cell.whole(side, 0) for side in value["size"])
    if value["mode"] not in _MODES or width * height > 2 * (Image.MAX_IMAGE_PIXELS or width * height):
        raise ValueError(value["mode"])
    info: dict[Any, Any] = {}
    if value["transparency"] is not None:
        info["transparency"] = _transparency(value["transparency"])
    if value["orientation"] is not None:
        exif = Image.Exif()
        exif[ORIENTATION] = cell.whole(value["orientation"], 1)
        info["exif"] = exif.tobytes()
    format_, mime = str(value["format"]), value["mime"]
    return {"mode": value["mode"], "size": (width, height), "info": info, "format": format_, "mime": mime}


def _transparency(value: Any) -> int | bytes | tuple[int, ...]:
    if isinstance(value, dict):
        return bytes(value["bytes"])
    return tuple(cell.whole(number, 0) for number in value) if isinstance(value, list) else cell.whole(value, 0)


def _pixels(value: Any) -> tuple[dict[str, Any], int, tuple[str, bytes] | None]:
    header = _facts(value)
    if header["mode"] not in _MODES or (value["palette"] and value["palette"][0] not in PALETTES):
        raise ValueError(value["palette"])
    palette = (value["palette"][0], bytes(value["palette"][1])) if value["palette"] else None
    return header, cell.whole(value["bytes"], 1), palette
