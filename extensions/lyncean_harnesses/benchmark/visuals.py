"""Media of a foreign task: the data's own bytes if the code returns their pixels unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lyncean.media import UNKNOWN, media_type, open_image
from lyncean.plugins import OwnFiles
from lyncean_harnesses.library.data import undecoded
from lyncean_harnesses.library.requests import Clip, png, read_file
from orchestrator.samples import Part, audio_part, image_part, text_part, video_part


class Sources:
    """The encoded images of one row.

    Args:
        row: The row as the data store it: an image is its bytes and a path.
        files: Files that a path may name; None allows all.

    Attributes:
        files: As above.
        encoded: Number of images that had to be encoded anew.

    Raises:
        OutsideDataError: The row names a file outside of `files`.
    """

    def __init__(self, row: Any, files: OwnFiles | None = None) -> None:
        self.files = files
        self._files = list(_files(row, files))
        self._pixels: list[tuple[tuple[int, int], bytes] | None] = [None] * len(self._files)
        self.encoded = 0

    def part(self, image: Any) -> Part:
        """Returns a part with an image that the task's code returned.

        It has the bytes of the data if the code returned their pixels, as any server decodes them: turned upright,
        in RGB, transparency over white. Otherwise it has a PNG of what the code returned.
        """
        size, pixels = _rendered(image)
        for index, data in enumerate(self._files):
            if self._decoded(index) == (size, pixels):
                return image_part(data)
        self.encoded += 1
        return image_part(png(image))

    def _decoded(self, index: int) -> tuple[tuple[int, int], bytes]:
        from PIL import ImageOps

        rendered = self._pixels[index]
        if rendered is None:
            try:
                rendered = _rendered(ImageOps.exif_transpose(open_image(self._files[index])))
            except Exception:  # the task cannot have returned an image that does not decode
                rendered = ((0, 0), b"")
            self._pixels[index] = rendered
        return rendered


def document(docs: Any, number: int, files: OwnFiles | None = None) -> dict[str, Any]:
    """Returns a document of a table, its audio and videos not decoded."""
    kinds = undecoded(getattr(docs, "features", None) or {})
    return {
        name: Clip(kinds[name], value, files=files) if name in kinds and isinstance(value, Mapping) else value
        for name, value in docs[number].items()
    }


def parts(visuals: Iterable[Any], sources: Sources) -> Iterator[Part]:
    """Yields the parts of texts and of the visuals that `lyncean_harnesses.library.requests.shown` yields.

    Raises:
        NotAskableError: A file cannot be read.
    """
    for visual in visuals:
        if isinstance(visual, str):
            yield text_part(visual)
        elif isinstance(visual, bytes):
            yield image_part(visual)
        elif isinstance(visual, Clip):
            sources.encoded += visual.generated
            build = audio_part if visual.kind == "audio" else video_part
            yield build(visual.data, visual.span)
        else:
            yield sources.part(visual)


def _rendered(image: Any) -> tuple[tuple[int, int], bytes]:
    """Returns the size and the RGB pixels of an image as a model sees it."""
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        from PIL import Image

        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image.size, image.convert("RGB").tobytes()


def _files(value: Any, files: OwnFiles | None) -> Iterable[bytes]:
    """Yields the encoded images in a row; errors as in `read_file`."""
    if isinstance(value, Mapping):
        if set(value) == {"bytes", "path"}:
            data = value["bytes"]
            if data is None and value["path"] and Path(value["path"]).is_file():
                data = read_file(value["path"], files)
            if data:
                yield data
        else:
            for item in value.values():
                yield from _files(item, files)
    elif isinstance(value, list):
        for item in value:
            yield from _files(item, files)
    elif isinstance(value, bytes) and media_type(value) != UNKNOWN:
        yield value
