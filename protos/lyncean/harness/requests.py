"""What a harness says of a request, in terms of the contract: decoding, images, and where images stand in a text."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lyncean.harness import HarnessError
from lyncean.media import media_type
from lyncean.model.v1 import model_pb2 as model

T = TypeVar("T")

LM_EVAL_TOKENS = 256
"""Limit of an answer where a task of lm-evaluation-harness sets none: that of its models."""

LMMS_EVAL_TOKENS = 1024
"""Limit of an answer where a task of lmms-eval sets none: that of its clients of endpoints."""

ROLES = {"system": model.ROLE_SYSTEM, "user": model.ROLE_USER, "assistant": model.ROLE_ASSISTANT}

PLACEHOLDER = "<image>"
"""What stands for an image in a context of lm-evaluation-harness."""

_NO_IMAGE = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".wav", ".mp3", ".flac", ".m4a")


class NotAskableError(HarnessError):
    """A task asks with what a request cannot hold, such as sound; names it."""


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


def images(visual: Any) -> Iterator[Any]:
    """Yields the images of what a task's code returned: encoded ones as bytes, others as pillow's objects.

    Raises:
        NotAskableError: It is no image.
    """
    if visual is None:
        return
    if isinstance(visual, (list, tuple)):
        for each in visual:
            yield from images(each)
    elif hasattr(visual, "tobytes") and hasattr(visual, "convert"):
        yield visual
    elif isinstance(visual, (bytes, bytearray)):
        yield bytes(visual)
    elif isinstance(visual, Mapping) and visual.get("type") == "image":
        yield from images(visual.get("url", visual.get("image")))
    elif isinstance(visual, Mapping) and isinstance(visual.get("bytes"), bytes):
        yield visual["bytes"]
    elif isinstance(visual, (str, os.PathLike)):
        yield image_file(Path(visual))
    else:
        kind = "sound" if isinstance(visual, Mapping) and "array" in visual else type(visual).__name__
        raise NotAskableError(f"its questions have {kind}, and requests hold text and images")


def image_file(path: Path) -> bytes:
    """Returns the bytes of an image file.

    Raises:
        NotAskableError: It cannot be read or is no image.
    """
    if path.suffix.lower() in _NO_IMAGE:
        raise NotAskableError(f"its questions have video or sound ({path.name}), and requests hold text and images")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotAskableError(f"its code names a file that cannot be read ({path}): {error.strerror}") from None
    if media_type(data) == "application/octet-stream":
        raise NotAskableError(f"its questions have a file that is no image ({path.name})")
    return data


def png(image: Any) -> bytes:
    """Returns an image of pillow's as a PNG with the same pixels."""
    buffer = io.BytesIO()
    image = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")
    image.save(buffer, "PNG")
    return buffer.getvalue()


def pieces(content: Any) -> Iterator[Any]:
    """Yields the texts and the images, as `images` does, of a message of lmms-eval.

    Raises:
        NotAskableError: It has something else.
    """
    if isinstance(content, str):
        yield content
        return
    for each in content:
        if each["type"] == "text":
            yield each["text"]
        elif each["type"] == "image":
            yield from images(each.get("url", each.get("image")))
        else:
            raise NotAskableError(f"its questions have {each['type']}, and requests hold text and images")


def interleaved(context: str, shown: Sequence[T], placeholder: str = PLACEHOLDER) -> list[str | T]:
    """Returns a context of lm-evaluation-harness with images at its placeholders, in front if they are not as many."""
    texts = context.split(placeholder)
    if len(texts) != len(shown) + 1:
        return [*shown, context.replace(placeholder, "")]
    found: list[str | T] = []
    for text, image in itertools.zip_longest(texts, shown):
        found += [text] if text else []
        found += [] if image is None else [image]
    return found or [""]
