"""Synthetic media for the self-check: coarse patterns and tones, which survive resizing and filters."""

from __future__ import annotations

import io
import wave

import numpy as np
from PIL import Image

from lyncean.model.v1 import model_pb2 as model

_RATE = 16_000
_FRAMES = 4


def part(kind: str, seed: int) -> model.Part:
    """Returns an image, an audio file or a video; of one size for all seeds."""
    if kind == "image":
        buffer = io.BytesIO()
        _picture(seed, 224).save(buffer, "PNG")
        return model.Part(image=model.Image(data=buffer.getvalue()))
    return audio(seed, seed) if kind == "audio" else video(seed)


def audio(seed: int, last: int, seconds: float = 1.0) -> model.Part:
    """Returns a tone; its last half second is the tone of another seed."""
    times = np.arange(round(seconds * _RATE)) / _RATE
    pitch = np.where(times < seconds - 0.5, seed, last) * 220
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, _RATE, 0, "NONE", ""))
        file.writeframes((np.sin(2 * np.pi * pitch * times) * 16384).astype("<i2").tobytes())
    return model.Part(audio=model.Audio(data=buffer.getvalue()))


def video(seed: int, last: int | None = None) -> model.Part:
    """Returns a video of patterns; its last frame has the pattern of another seed, if `last` is set."""
    seeds = [*([seed] * (_FRAMES - 1)), seed if last is None else last]
    frames = [_picture(10 * pattern + number, 112) for number, pattern in enumerate(seeds)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=500)
    sampling = model.FrameSampling(count=_FRAMES)
    return model.Part(video=model.Video(data=buffer.getvalue(), sampling=sampling))


def _picture(seed: int, size: int) -> Image.Image:
    blocks = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(blocks).resize((size, size), Image.Resampling.NEAREST)
