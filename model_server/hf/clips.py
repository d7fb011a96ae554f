"""Audio and videos for a checkpoint's processor: the kinds that it takes, the decoded clips, and their metadata.

Frames and samples are chosen and decoded by `model_server.clips`, as in every backend; the processor only resizes,
normalizes and turns them into features.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model
from model_server import clips
from model_server.clips import Frames, Sound

log = logging.getLogger(__name__)
DEFAULT_FRAMES = 32
"""Frames of a video if neither the request nor the checkpoint's video processor sets a number."""
_GRID_SECONDS = "video_second_per_grid"
"""Qwen-Omni's seconds between the grids of a video; its processor computes one value for all videos."""


def clip_kinds(processor: Any) -> frozenset[Kind]:
    """Returns the kinds of clips that a processor takes; empty if PyAV is not installed."""
    parts: dict[Kind, Any] = {
        "audio": getattr(audio_processor(processor), "sampling_rate", None),
        "video": getattr(processor, "video_processor", None),
    }
    kinds = frozenset(kind for kind, part in parts.items() if part is not None)
    if kinds and not find_spec("av"):
        log.warning("%s input needs PyAV: pip install 'lyncean[media]'", " and ".join(sorted(kinds)))
        return frozenset()
    return kinds


def audio_processor(processor: Any) -> Any:
    """Returns the part of a processor that takes audio samples; None without one."""
    return getattr(processor, "audio_processor", None) or getattr(processor, "feature_extractor", None)


@dataclass
class Decoded:
    """The audio and videos of one prompt, decoded, each kind in its order."""

    sounds: list[Sound] = field(default_factory=list)
    videos: list[Frames] = field(default_factory=list)

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the clips."""
        clips: dict[Kind, Sequence[object]] = {"audio": self.sounds, "video": self.videos}
        return frozenset(kind for kind, some in clips.items() if some)

    def arguments(self, processor: Any) -> dict[str, Any]:
        """Returns the processor's arguments: all samples, and frames that are not to be sampled again."""
        arguments: dict[str, Any] = {}
        if self.sounds:
            arguments["audio"] = [sound.samples for sound in self.sounds]
            arguments["audio_kwargs"] = {"sampling_rate": self.sounds[0].rate}
        if self.videos:
            patch = getattr(processor.video_processor, "temporal_patch_size", None) or 1
            videos = [_filled(video, patch) for video in self.videos]
            arguments["videos"] = [np.stack(video.images) for video in videos]
            arguments["videos_kwargs"] = {
                "do_sample_frames": False,
                "video_metadata": [_metadata(video) for video in videos],
                "return_metadata": True,  # some processors write timestamps from it without requesting it themselves
            }
        return arguments

    def correct(self, inputs: dict[str, torch.Tensor], processor: Any) -> None:
        """Replaces the seconds per grid, which one setting gives for all videos, by each video's own."""
        if _GRID_SECONDS in inputs:
            step = processor.video_processor.temporal_patch_size
            seconds = [step * video.total / (len(video.images) * video.rate) for video in self.videos]
            inputs[_GRID_SECONDS] = torch.tensor(seconds)


class ClipDecoder:
    """Decodes the audio and video parts of prompts.

    Args:
        processor: The checkpoint's processor.

    Attributes:
        sampling: Frame sampling of videos whose request sets none.
        longest: Seconds of the longest audio part; 0 means unlimited. Set by the self-check.
    """

    def __init__(self, processor: Any) -> None:
        self.sampling = _sampling(getattr(processor, "video_processor", None))
        self.longest = 0.0
        self._rate = int(getattr(audio_processor(processor), "sampling_rate", 0))

    def decode(self, messages: Sequence[model.Message]) -> Decoded:
        """Decodes all audio and video parts.

        Raises:
            InvalidRequest: One is damaged, its span is empty, or a limit is passed.
        """
        decoded = Decoded()
        for part in (part for message in messages for part in message.parts):
            if part.HasField("audio"):
                where = f"audio {len(decoded.sounds)}"
                decoded.sounds.append(clips.decode_audio(part.audio, self._rate, where=where, max_seconds=self.longest))
            elif part.HasField("video"):
                decoded.videos.append(
                    clips.decode_video(part.video, self.sampling, where=f"video {len(decoded.videos)}")
                )
        return decoded


def window(processor: Any) -> float:
    """Returns the seconds of audio after which a processor may cut; 0 if it names no limit.

    The self-check finds out whether it cuts: some processors divide longer audio into windows.
    """
    part = audio_processor(processor)
    if seconds := getattr(processor, "max_audio_len", 0):
        return float(seconds)
    longest = inspect.signature(type(part).__call__).parameters.get("max_length")
    samples = getattr(part, "n_samples", None) or (longest.default if longest else None)
    return samples / part.sampling_rate if isinstance(samples, int) else 0.0


def _sampling(processor: Any) -> model.FrameSampling:
    """Returns the frame sampling that a video processor names."""
    rate, count = getattr(processor, "fps", None), getattr(processor, "num_frames", None)
    if rate:
        return model.FrameSampling(per_second=rate, max_count=count or getattr(processor, "max_frames", None) or 0)
    return model.FrameSampling(count=count or DEFAULT_FRAMES)


def _filled(video: Frames, patch: int) -> Frames:
    """Returns a video of at least one patch of frames; repeats its last frame if needed.

    Processors pad odd numbers so; that of Qwen3-VL refuses a single frame.
    """
    missing = max(0, patch - len(video.images))
    images, times = ([*some, *[some[-1]] * missing] for some in (video.images, video.times))
    return replace(video, images=images, times=times)


def _metadata(video: Frames) -> dict[str, Any]:
    """Returns the library's metadata of frames that are sampled already.

    Times are those of the file. Indices are in frames of its average rate, which in a file of a changing rate are not
    integers: divided by the rate they give the time at which each frame is shown.
    """
    height, width = video.images[0].shape[:2]
    return {
        "total_num_frames": video.total,
        "fps": video.rate,
        "frames_indices": [round(time * video.rate, 6) for time in video.times],
        "duration": video.duration,
        "width": width,
        "height": height,
    }
