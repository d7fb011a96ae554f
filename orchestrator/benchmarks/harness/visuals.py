"""What a foreign task shows: the data's own bytes wherever its code returns their pixels unchanged."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lyncean.media import media_type
from lyncean.pictures import open_image
from orchestrator.errors import ConfigError
from orchestrator.samples import Part, image_part


class NotAskableError(ConfigError):
    """A task asks with what a request cannot hold, such as sound; names it."""


class Sources:
    """The encoded images of one row.

    Args:
        row: The row as the data store it: an image is its bytes and a path.

    Attributes:
        encoded: How many images had to be encoded anew.
    """

    def __init__(self, row: Any) -> None:
        self._files = list(_files(row))
        self._pixels: list[tuple[tuple[int, int], bytes] | None] = [None] * len(self._files)
        self.encoded = 0

    def part(self, image: Any) -> Part:
        """Returns a part with an image that the task's code returned.

        It has the bytes of the data if the code returned their pixels, as any server decodes them: turned upright,
        in RGB, transparency over white. Otherwise it has a PNG of what the code returned.
        """
        size, pixels = _rendered(image)
        for place, data in enumerate(self._files):
            if self._decoded(place) == (size, pixels):
                return image_part(data)
        self.encoded += 1
        buffer = io.BytesIO()
        image = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")
        image.save(buffer, "PNG")
        return image_part(buffer.getvalue())

    def _decoded(self, place: int) -> tuple[tuple[int, int], bytes]:
        from PIL import ImageOps

        found = self._pixels[place]
        if found is None:
            try:
                found = _rendered(ImageOps.exif_transpose(open_image(self._files[place])))
            except Exception:  # what cannot be decoded is no image that the task returned
                found = ((0, 0), b"")
            self._pixels[place] = found
        return found


def parts(visual: Any, sources: Sources) -> Iterator[Part]:
    """Yields the parts of what a task's `doc_to_visual` returned, or a message of its holds.

    Raises:
        NotAskableError: It is no image.
    """
    if visual is None:
        return
    if isinstance(visual, (list, tuple)):
        for each in visual:
            yield from parts(each, sources)
    elif hasattr(visual, "tobytes") and hasattr(visual, "convert"):
        yield sources.part(visual)
    elif isinstance(visual, (bytes, bytearray)):
        yield image_part(bytes(visual))
    elif isinstance(visual, Mapping) and visual.get("type") == "image":
        yield from parts(visual.get("url", visual.get("image")), sources)
    elif isinstance(visual, Mapping) and isinstance(visual.get("bytes"), bytes):
        yield image_part(visual["bytes"])
    elif isinstance(visual, (str, os.PathLike)):
        yield image_part(_file(Path(visual)))
    else:
        kind = "sound" if isinstance(visual, Mapping) and "array" in visual else type(visual).__name__
        raise NotAskableError(f"its questions have {kind}, and requests hold text and images")


def _file(path: Path) -> bytes:
    kind = path.suffix.lower()
    if kind in (".mp4", ".avi", ".mov", ".mkv", ".webm", ".wav", ".mp3", ".flac", ".m4a"):
        raise NotAskableError(f"its questions have video or sound ({path.name}), and requests hold text and images")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotAskableError(f"its code names a file that cannot be read ({path}): {error.strerror}") from None
    if media_type(data) == "application/octet-stream":
        raise NotAskableError(f"its questions have a file that is no image ({path.name})")
    return data


def _rendered(image: Any) -> tuple[tuple[int, int], bytes]:
    """Returns the size and the RGB pixels of an image as a model sees it."""
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        from PIL import Image

        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image.size, image.convert("RGB").tobytes()


def _files(value: Any) -> Iterable[bytes]:
    """Yields the encoded images in a row."""
    if isinstance(value, Mapping):
        if set(value) == {"bytes", "path"}:
            data = value["bytes"]
            if data is None and value["path"] and Path(value["path"]).is_file():
                data = Path(value["path"]).read_bytes()
            if data:
                yield data
        else:
            for each in value.values():
                yield from _files(each)
    elif isinstance(value, list):
        for each in value:
            yield from _files(each)
    elif isinstance(value, bytes) and media_type(value) != "application/octet-stream":
        yield value
