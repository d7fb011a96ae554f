"""A model server that sees and hears as little as can be: it counts frames, and samples that are not silent.

Its answer to a prompt is "video 0,3,6 audio 8000" with the numbers of `helpers.clips` that it saw, or grey, and
the samples that it heard.
"""

from __future__ import annotations

import numpy as np

from helpers.clips import shown
from model_server.kit import Model, Request, main


class Counting(Model):
    name = "counting"
    audio_input = video_input = True
    sample_rate = 16_000
    frames = 8

    def generate(self, request: Request) -> str:
        counts = []
        for video in request.videos:
            counts.append("video " + ",".join(_name(image) for image in video.images))
        counts += [f"audio {np.count_nonzero(np.abs(sound.samples) > 1e-3)}" for sound in request.audio]
        return " ".join(counts)


def _name(image: np.ndarray) -> str:
    return "grey" if abs(float(image.mean()) - 128) < 4 else str(shown(image))


if __name__ == "__main__":
    main(Counting)
