"""What a harness says of a request, in terms of the contract: decoding, media, and where images stand in a text."""

from __future__ import annotations

import io
import itertools
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from lyncean.media import UNKNOWN, Kind, media_type, read_samples
from lyncean.model.v1 import model_pb2 as model
from lyncean.plugins import OwnFiles
from lyncean_harnesses.library import HarnessError

T = TypeVar("T")

LM_EVAL_TOKENS = 256
"""Limit of an answer where a task of lm-evaluation-harness sets none: that of its models."""

LMMS_EVAL_TOKENS = 1024
"""Limit of an answer where a task of lmms-eval sets none: that of its clients of endpoints."""

ROLES = {"system": model.ROLE_SYSTEM, "user": model.ROLE_USER, "assistant": model.ROLE_ASSISTANT}

PLACEHOLDER = "<image>"
"""What stands for an image in a context of lm-evaluation-harness."""

_CLIPS: dict[str, Kind] = {
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".flv"), "video"),
    **dict.fromkeys((".wav", ".mp3", ".flac", ".m4a", ".aac", ".ogg", ".opus"), "audio"),
}


class NotAskableError(HarnessError):
    """A task asks with what a request cannot hold, such as sound; names it."""


class OutsideDataError(NotAskableError):
    """A task's row or code names a file that does not belong to its data, and is not read."""


def decoding(settings: Mapping[str, Any], *, tokens: int, stops: bool) -> model.GenerationConfig:
    """Returns the decoding that `generation_kwargs` of a task ask for.

    Args:
        settings: Its `generation_kwargs`.
        tokens: Limit of an answer where they set none.
        stops: Whether its stop strings count.
    """
    config = model.GenerationConfig(
        max_output_tokens=int(settings.get("max_new_tokens") or settings.get("max_gen_toks") or tokens)
    )
    temperature = float(settings.get("temperature") or 0)
    if temperature > 0 and settings.get("do_sample") is not False:
        config.temperature = temperature
        if settings.get("top_p"):
            config.top_p = float(settings["top_p"])
        if settings.get("top_k"):
            config.top_k = int(settings["top_k"])
    if stops:
        until = settings.get("until") or []
        config.stop.extend(word for word in ([until] if isinstance(until, str) else until) if word)
    return config


class Clip(dict[str, Any]):
    """An audio or video file that a task shows, read where it is sent and decoded where the task's code looks into it.

    It has `path`, and for audio `array` (the mean of the channels) and `sampling_rate`, as `datasets` decodes it.

    Args:
        kind: Of the file.
        cell: Bytes and a path, as data store them; the path alone names a file.
        span: The part that is shown; None is all of it.
        made: Whether it was made of samples that the task's code returned.
        files: Those that a path may name; None is all.
    """

    def __init__(
        self,
        kind: Kind,
        cell: Mapping[str, Any],
        span: model.TimeSpan | None = None,
        *,
        made: bool = False,
        files: OwnFiles | None = None,
    ) -> None:
        super().__init__(path=cell.get("path"), type=kind)
        self.kind: Kind = kind
        self.span = span
        self.made = made
        self._cell = cell
        self._files = files

    @property
    def data(self) -> bytes:
        """The file's bytes.

        Raises:
            NotAskableError: It cannot be read.
        """
        data = self._cell.get("bytes")
        return read_file(str(self._cell.get("path")), self._files) if data is None else bytes(data)

    def __missing__(self, name: str) -> Any:
        """Decodes audio."""
        if self.kind != "audio" or name not in ("array", "sampling_rate"):
            raise KeyError(name)
        self["array"], self["sampling_rate"] = read_samples(self.data)
        return self[name]

    def get_all_samples(self) -> SimpleNamespace:
        """Returns audio as torchcodec's decoder does, which datasets hands over where that is installed.

        Some tasks' code looks for nothing else, and shows no sound where it finds none.
        """
        import torch

        samples = torch.tensor(self["array"])[None]
        return SimpleNamespace(data=samples, sample_rate=self["sampling_rate"])

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a value, as a dictionary that was decoded does."""
        return self[name] if name in self else default  # noqa: SIM401  (it would call itself)

    def __contains__(self, name: object) -> bool:
        """Whether it has a value, as a dictionary that was decoded has it."""
        return super().__contains__(name) or (self.kind == "audio" and name in ("array", "sampling_rate"))


def shown(visual: Any, files: OwnFiles | None = None) -> Iterator[Any]:
    """Yields what a task's code shows: encoded images as bytes, others as pillow's objects, audio and video as clips.

    Args:
        visual: What it returns.
        files: Those that a path may name; None is all, where another harness's own command shows them.

    Raises:
        NotAskableError: It is something else.
        OutsideDataError: It names another file.
    """
    if visual is None:
        return
    if isinstance(visual, (list, tuple)):
        for each in visual:
            yield from shown(each, files)
    elif isinstance(visual, Clip) or (hasattr(visual, "tobytes") and hasattr(visual, "convert")):
        yield visual
    elif isinstance(visual, (bytes, bytearray)):
        yield bytes(visual)
    elif isinstance(visual, Mapping) and "array" in visual and "sampling_rate" in visual:
        yield Clip("audio", {"bytes": _wave(visual["array"], int(visual["sampling_rate"]))}, made=True)
    elif isinstance(visual, Mapping) and visual.get("type") in ("image", "audio", "video"):
        yield from _typed(visual, files)
    elif isinstance(visual, Mapping) and isinstance(visual.get("bytes"), bytes):
        yield visual["bytes"]
    elif isinstance(visual, (str, os.PathLike)):
        yield _file(Path(visual), files)
    else:
        what = (visual.get("type") if isinstance(visual, Mapping) else None) or type(visual).__name__
        raise NotAskableError(f"its questions have {what}, and requests hold text, images and clips")


def without_clips(found: Iterable[Any]) -> Iterator[Any]:
    """Yields texts and images.

    Raises:
        NotAskableError: There is audio or a video among them.
    """
    for each in found:
        if isinstance(each, Clip):
            name = f" ({Path(each['path']).name})" if each["path"] else ""
            raise NotAskableError(f"its questions have {each.kind}{name}, and requests hold text and images here")
        yield each


def _typed(visual: Mapping[str, Any], files: OwnFiles | None) -> Iterator[Any]:
    """Yields what says itself what it is; a video may be a part of a file."""
    named = next((visual[name] for name in ("url", "path", visual["type"]) if visual.get(name) is not None), None)
    found = list(shown(named, files))
    if visual["type"] == "video" and not all(isinstance(each, Clip) for each in found):
        raise NotAskableError("its questions have videos as single images")
    bounds = {name: visual.get(f"video_{name}") for name in ("start", "end")}
    if any(value is not None for value in bounds.values()):
        span = model.TimeSpan()
        for name, value in bounds.items():
            if value is not None:
                getattr(span, name).FromNanoseconds(round(float(value) * 1e9))
        for each in found:
            if isinstance(each, Clip):
                each.span = span
    yield from found


def _file(path: Path, files: OwnFiles | None) -> bytes | Clip:
    if kind := _CLIPS.get(path.suffix.lower()):
        return Clip(kind, {"path": str(path)}, files=files)
    data = read_file(path, files)
    if media_type(data) == UNKNOWN:
        raise NotAskableError(f"its questions have a file that is no image, audio or video ({path.name})")
    return data


def read_file(path: str | Path, files: OwnFiles | None) -> bytes:
    """Reads a file that a task's row or code names.

    Raises:
        OutsideDataError: It is not one of `files`.
        NotAskableError: It cannot be read.
    """
    place = Path(path) if files is None else files.resolved(path)
    if place is None:
        raise OutsideDataError(
            f"it names a file outside of its data ({path}), which is not read: if it is to be, give its folder by "
            "--include-path"
        )
    try:
        return place.read_bytes()
    except OSError as error:
        raise NotAskableError(f"its code names a file that cannot be read ({path}): {error.strerror}") from None


def _wave(samples: Any, rate: int) -> bytes:
    """Returns samples as a WAV file of 32-bit floats; of several channels, [channels, samples], the mean."""
    import numpy as np

    flat = np.asarray(samples, dtype=np.float32)
    data = (flat.mean(axis=0) if flat.ndim > 1 else flat).astype("<f4").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32)
    return b"".join(
        [struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE"), form, struct.pack("<4sI", b"data", len(data)), data]
    )


def png(image: Any) -> bytes:
    """Returns an image of pillow's as a PNG with the same pixels."""
    buffer = io.BytesIO()
    image = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")
    image.save(buffer, "PNG")
    return buffer.getvalue()


def pieces(content: Any, files: OwnFiles | None = None) -> Iterator[Any]:
    """Yields the texts of a message of lmms-eval and, as `shown` does, what else it holds; errors as there."""
    if isinstance(content, str):
        yield content
        return
    for each in content:
        if each["type"] == "text":
            yield each["text"]
        else:
            yield from shown(each, files)


def interleaved(context: str, visuals: Sequence[T], placeholder: str = PLACEHOLDER) -> list[str | T]:
    """Returns a context of lm-evaluation-harness with images at its placeholders, in front if they are not as many."""
    texts = context.split(placeholder)
    if len(texts) != len(visuals) + 1:
        return [*visuals, context.replace(placeholder, "")]
    found: list[str | T] = []
    for text, image in itertools.zip_longest(texts, visuals):
        found += [text] if text else []
        found += [] if image is None else [image]
    return found or [""]
