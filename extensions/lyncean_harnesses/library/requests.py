"""A harness's requests in terms of the contract: decoding, media, and the positions of images in a text."""

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
"""Output limit if a task of lm-evaluation-harness sets none, as of its models; in tokens."""

LMMS_EVAL_TOKENS = 1024
"""Output limit if a task of lmms-eval sets none, as of its clients of endpoints; in tokens."""

ROLES = {"system": model.ROLE_SYSTEM, "user": model.ROLE_USER, "assistant": model.ROLE_ASSISTANT}

PLACEHOLDER = "<image>"
"""The placeholder of an image in a context of lm-evaluation-harness."""

_CLIPS: dict[str, Kind] = {
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".flv"), "video"),
    **dict.fromkeys((".wav", ".mp3", ".flac", ".m4a", ".aac", ".ogg", ".opus"), "audio"),
}


class NotAskableError(HarnessError):
    """A task asks with content that a request cannot hold, such as sound; names it."""


class OutsideDataError(NotAskableError):
    """A task's row or code names a file that does not belong to its data, and that is not read."""


def decoding(settings: Mapping[str, Any], *, tokens: int, stops: bool) -> model.GenerationConfig:
    """Returns the decoding that a task's `generation_kwargs` ask for.

    Args:
        settings: Its `generation_kwargs`.
        tokens: Output limit in tokens if the settings have none.
        stops: Whether to use its stop strings.
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
    """An audio or video file that a task shows; read when it is sent, decoded when the task's code reads it.

    It has `path`, and for audio `array` (the mean of the channels) and `sampling_rate`, as `datasets` decodes it.

    Args:
        kind: Kind of the file.
        cell: Bytes and a path, as data store them; without bytes the path names a file.
        span: The part that is shown; None is all of it.
        generated: Whether it was encoded from samples that the task's code returned.
        files: Files that a path may name; None allows all.
    """

    def __init__(
        self,
        kind: Kind,
        cell: Mapping[str, Any],
        span: model.TimeSpan | None = None,
        *,
        generated: bool = False,
        files: OwnFiles | None = None,
    ) -> None:
        super().__init__(path=cell.get("path"), type=kind)
        self.kind: Kind = kind
        self.span = span
        self.generated = generated
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
        """Returns audio as torchcodec's decoder does, which datasets returns if it is installed.

        Some tasks' code checks for this method alone and shows no sound without it.
        """
        import torch

        samples = torch.tensor(self["array"])[None]
        return SimpleNamespace(data=samples, sample_rate=self["sampling_rate"])

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a value, like a decoded dictionary."""
        return self[name] if name in self else default  # noqa: SIM401  (it would call itself)

    def __contains__(self, name: object) -> bool:
        """Returns True if it has a value, like a decoded dictionary."""
        return super().__contains__(name) or (self.kind == "audio" and name in ("array", "sampling_rate"))


def shown(visual: Any, files: OwnFiles | None = None) -> Iterator[Any]:
    """Yields the visuals of a task's code: encoded images as bytes, others as Pillow images, audio and video as clips.

    Args:
        visual: The value that the task's code returns.
        files: Files that a path may name; None allows all, as in another harness's own command.

    Raises:
        NotAskableError: It is of another type.
        OutsideDataError: It names a file outside of `files`.
    """
    if visual is None:
        return
    if isinstance(visual, (list, tuple)):
        for item in visual:
            yield from shown(item, files)
    elif isinstance(visual, Clip) or (hasattr(visual, "tobytes") and hasattr(visual, "convert")):
        yield visual
    elif isinstance(visual, (bytes, bytearray)):
        yield bytes(visual)
    elif isinstance(visual, Mapping) and "array" in visual and "sampling_rate" in visual:
        yield Clip("audio", {"bytes": _wave(visual["array"], int(visual["sampling_rate"]))}, generated=True)
    elif isinstance(visual, Mapping) and visual.get("type") in ("image", "audio", "video"):
        yield from _typed(visual, files)
    elif isinstance(visual, Mapping) and isinstance(visual.get("bytes"), bytes):
        yield visual["bytes"]
    elif isinstance(visual, (str, os.PathLike)):
        yield _file(Path(visual), files)
    else:
        kind = (visual.get("type") if isinstance(visual, Mapping) else None) or type(visual).__name__
        raise NotAskableError(f"its questions have {kind}, and requests hold text, images and clips")


def without_clips(visuals: Iterable[Any]) -> Iterator[Any]:
    """Yields texts and images.

    Raises:
        NotAskableError: The visuals include audio or video.
    """
    for visual in visuals:
        if isinstance(visual, Clip):
            name = f" ({Path(visual['path']).name})" if visual["path"] else ""
            raise NotAskableError(f"its questions have {visual.kind}{name}, and requests hold text and images here")
        yield visual


def _typed(visual: Mapping[str, Any], files: OwnFiles | None) -> Iterator[Any]:
    """Yields a visual with an explicit type; a video may be a part of a file."""
    named = next((visual[name] for name in ("url", "path", visual["type"]) if visual.get(name) is not None), None)
    contents = list(shown(named, files))
    if visual["type"] == "video" and not all(isinstance(item, Clip) for item in contents):
        raise NotAskableError("its questions have videos as single images")
    bounds = {name: visual.get(f"video_{name}") for name in ("start", "end")}
    if any(value is not None for value in bounds.values()):
        span = model.TimeSpan()
        for name, value in bounds.items():
            if value is not None:
                getattr(span, name).FromNanoseconds(round(float(value) * 1e9))
        for item in contents:
            if isinstance(item, Clip):
                item.span = span
    yield from contents


def _file(path: Path, files: OwnFiles | None) -> bytes | Clip:
    if kind := _CLIPS.get(path.suffix.lower()):
        return Clip(kind, {"path": str(path)}, files=files)
    data = read_file(path, files)
    if media_type(data) == UNKNOWN:
        raise NotAskableError(f"its questions have a file that is not an image, audio or video ({path.name})")
    return data


def read_file(path: str | Path, files: OwnFiles | None) -> bytes:
    """Reads a file that a task's row or code names.

    Raises:
        OutsideDataError: It is not one of `files`.
        NotAskableError: It cannot be read.
    """
    file = Path(path) if files is None else files.resolved(path)
    if file is None:
        raise OutsideDataError(
            f"it names a file outside of its data ({path}), which is not read: if it is to be, give its folder by "
            "--include-path"
        )
    try:
        return file.read_bytes()
    except OSError as error:
        raise NotAskableError(f"its code names a file that cannot be read ({path}): {error.strerror}") from None


def _wave(samples: Any, rate: int) -> bytes:
    """Returns samples as a WAV file of 32-bit floats; averages the channels of [channels, samples]."""
    import numpy as np

    flat = np.asarray(samples, dtype=np.float32)
    data = (flat.mean(axis=0) if flat.ndim > 1 else flat).astype("<f4").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32)
    return b"".join(
        [struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE"), form, struct.pack("<4sI", b"data", len(data)), data]
    )


def png(image: Any) -> bytes:
    """Returns a Pillow image as a PNG with the same pixels."""
    buffer = io.BytesIO()
    image = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")
    image.save(buffer, "PNG")
    return buffer.getvalue()


def pieces(content: Any, files: OwnFiles | None = None) -> Iterator[Any]:
    """Yields the texts of a message of lmms-eval, and its other content as `shown` does; errors as there."""
    if isinstance(content, str):
        yield content
        return
    for part in content:
        if part["type"] == "text":
            yield part["text"]
        else:
            yield from shown(part, files)


def interleaved(context: str, visuals: Sequence[T], placeholder: str = PLACEHOLDER) -> list[str | T]:
    """Returns a context of lm-evaluation-harness with images at its placeholders, or in front if the numbers differ."""
    texts = context.split(placeholder)
    if len(texts) != len(visuals) + 1:
        return [*visuals, context.replace(placeholder, "")]
    parts: list[str | T] = []
    for text, image in itertools.zip_longest(texts, visuals):
        parts += [text] if text else []
        parts += [] if image is None else [image]
    return parts or [""]
