"""A model server whose answers depend on the text and the pixels that it sees, and on nothing else.

With ANSWERS=readable70 in its environment 30% of the answers name no letter.

`python tests/helpers/harness_model.py --port 50051`
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from lyncean_harnesses.library.requests import png
from model_server.kit import Model, Output, Request, Score, main

ANSWERS = ("A", "B", "(C)", "The answer is D.", "yes", "No", "2", "7.5", "a red car", "", "Answer: B", "\\boxed{4}")
if os.environ.get("ANSWERS") == "readable70":
    ANSWERS = ("A", "B", "(C)", "D", "Answer: B", "A", "(C)", "", "7.5", "I cannot tell")
    """30% are none of the letters of a multiple-choice question."""


class Hashing(Model):
    name = "hashing"
    revision = "1"
    multi_image = True
    audio_input = video_input = image_output = True
    max_concurrency = 64
    max_context_tokens = 1 << 20

    def generate(self, request: Request) -> str | Output:
        if request.modality == model.MODALITY_IMAGE:
            number = self._number(request, "draw")
            return Output("Drawn.", image_files=[png(Image.frombytes("L", (3, 2), number.to_bytes(6, "big")))])
        if "REFUSE" in request.text:
            raise InvalidRequest("asked_for", "it was asked to refuse")
        return ANSWERS[self._number(request, "") % len(ANSWERS)]

    def likelihood(self, request: Request, continuations: Sequence[str]) -> list[Score]:
        answers = []
        for text in continuations:
            number = self._number(request, text)
            tokens = [(word, -(number % 997 + 1) / 331) for word in self.tokenize(text) or [text]]
            answers.append(Score(sum(logprob for _, logprob in tokens), tokens, number % 3 == 0))
        return answers

    def _number(self, request: Request, more: str) -> int:
        digest = hashlib.sha256(f"{request.text}\n{more}".encode())
        for image in request.images:
            digest.update(repr(image.size).encode() + image.tobytes())
        for sound in request.audio:
            digest.update(f"{sound.rate}".encode() + sound.samples.tobytes())
        for video in request.videos:
            digest.update(b"".join(frame.tobytes() for frame in video.images))
        return int.from_bytes(digest.digest()[:6], "big")


if __name__ == "__main__":
    main(Hashing)
