"""What a foreign task shows: the data's own bytes wherever its code returns their pixels unchanged."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lyncean.clips import read_samples
from lyncean.harness.requests import NotAskableError, png
from lyncean.media import UNKNOWN, Kind, media_type
from lyncean.model.v1 import model_pb2 as model
from lyncean.pictures import open_image
from orchestrator.samples import Part, audio_part, image_part, video_part

_KINDS: dict[str, Kind] = {
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".flv"), "video"),
    **dict.fromkeys((".wav", ".mp3", ".flac", ".m4a", ".aac", ".ogg", ".opus"), "audio"),
}
_SAMPLES = 192_000 * 3600


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
        return image_part(png(image))

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


class Encoded(dict[str, Any]):
    """A cell of audio or video with its file's own bytes, decoded only where the task's code looks into it.

    It has `path`, and for audio `array` (the mean of the channels) and `sampling_rate`, as `datasets` decodes it.

    Args:
        kind: Of the cell.
        cell: Bytes and a path, as the data store them.
    """

    def __init__(self, kind: Kind, cell: Mapping[str, Any]) -> None:
        super().__init__(path=cell.get("path"), type=kind)
        self.kind: Kind = kind
        self._cell = cell

    def part(self) -> Part:
        """Returns a part with the file's bytes."""
        return _clip(self.kind, self.data)

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        data = self._cell.get("bytes")
        return _bytes(Path(str(self._cell.get("path")))) if data is None else bytes(data)

    def __missing__(self, name: str) -> Any:
        """Decodes audio."""
        if self.kind != "audio" or name not in ("array", "sampling_rate"):
            raise KeyError(name)
        self["array"], self["sampling_rate"] = read_samples(self.data, _SAMPLES)
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a value, as a dictionary that was decoded does."""
        return self[name] if name in self else default  # noqa: SIM401  (it would call itself)

    def __contains__(self, name: object) -> bool:
        """Whether it has a value, as a dictionary that was decoded has it."""
        return super().__contains__(name) or (self.kind == "audio" and name in ("array", "sampling_rate"))


def encoded(doc: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Returns a document, its cells of audio and video undecoded.

    Args:
        doc: The document.
        kinds: Column -> kind.
    """
    return {
        name: Encoded(kinds[name], value) if name in kinds and isinstance(value, Mapping) else value
        for name, value in doc.items()
    }


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
    elif isinstance(visual, Encoded):
        yield visual.part()
    elif isinstance(visual, Mapping) and "array" in visual and "sampling_rate" in visual:
        sources.encoded += 1
        yield audio_part(_wave(visual["array"], int(visual["sampling_rate"])))
    elif isinstance(visual, Mapping) and visual.get("type") in ("image", "audio", "video"):
        yield from _typed(visual, sources)
    elif isinstance(visual, Mapping) and isinstance(visual.get("bytes"), bytes):
        yield image_part(visual["bytes"])
    elif isinstance(visual, (str, os.PathLike)):
        yield _file(Path(visual))
    else:
        raise NotAskableError(f"its questions have {type(visual).__name__}, and requests hold text, images and clips")


def _typed(visual: Mapping[str, Any], sources: Sources) -> Iterator[Part]:
    """Yields the parts of what says itself what it is; a video may be a part of a file."""
    named = next((visual[name] for name in ("url", "path", visual["type"]) if visual.get(name) is not None), None)
    found = list(parts(named, sources))
    if visual["type"] == "video" and any(part.image for part in found):
        raise NotAskableError("its questions have videos as single images")
    bounds = {name: visual.get(f"video_{name}") for name in ("start", "end")}
    if any(value is not None for value in bounds.values()):
        span = model.TimeSpan()
        for name, value in bounds.items():
            if value is not None:
                getattr(span, name).FromNanoseconds(round(float(value) * 1e9))
        for part in found:
            if part.clip:
                part.clip.about.span.CopyFrom(span)
    yield from found


def _file(path: Path) -> Part:
    kind: Kind | None = _KINDS.get(path.suffix.lower())
    data = _bytes(path)
    if kind:
        return _clip(kind, data)
    if media_type(data) == UNKNOWN:
        raise NotAskableError(f"its questions have a file that is no image, audio or video ({path.name})")
    return image_part(data)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotAskableError(f"its code names a file that cannot be read ({path}): {error.strerror}") from None


def _clip(kind: Kind, data: bytes) -> Part:
    return audio_part(data) if kind == "audio" else video_part(data)


def _wave(samples: Any, rate: int) -> bytes:
    """Returns samples as a WAV file of 32-bit floats; of several channels, [channels, samples], the mean."""
    import numpy as np

    flat = np.asarray(samples, dtype=np.float32)
    data = (flat.mean(axis=0) if flat.ndim > 1 else flat).astype("<f4").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32)
    return b"".join(
        [struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE"), form, struct.pack("<4sI", b"data", len(data)), data]
    )


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
