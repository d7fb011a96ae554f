"""The demo backend: no weights, no learning, always the same answer to the same request.

It exists so that everything around a model can be tried without one, and its name says what
it is. It looks for options in the prompt and takes one by a hash of the request; its accuracy
is that of chance.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.addresses import shown_place
from model_server import images
from model_server.backend import LoadError
from model_server.kit.model import Model, Request, Score

_LETTERED = re.compile(r"(?:^|[\s(])([A-H])[.):]\s", re.MULTILINE)
_NUMBERED = re.compile(r"(?:^|[\s(])([1-9])[.):]\s", re.MULTILINE)
_NUMBERS = re.compile(r"\b([1-9])\s*(?:,|or|and)\s*(?=[1-9]\b)")
_LETTER_LINE = re.compile(r"Answer:\s*\$?(?:LETTER|OPTION)", re.IGNORECASE)
_POLAR = re.compile(r"(?:^|[.\n]\s*)(?:is|are|was|were|do|does|did|can|could|has|have|will)\b[^?]*\?", re.IGNORECASE)
_GREEDY = 0.9


class HashModel(Model):
    """Picks among the options that the prompt shows, by a hash.

    Args:
        model_id: "", "demo" or "hash" for the hash, "constant:TEXT" to answer TEXT always.
    """

    audio_input = video_input = find_spec("av") is not None
    answer_prefix = True
    answer_choices = True
    system_messages = True
    max_concurrency = 32
    max_context_tokens = 32_768
    image_tokens = 64
    audio_tokens = 25

    def __init__(self, model_id: str = "") -> None:
        kind, _, text = model_id.partition(":")
        self._constant = text if kind == "constant" else None
        self._model_id = model_id
        self.name = "demo-no-weights" if self._constant is None else f"demo-constant-{text}"
        self.revision = "1"

    def load(self) -> None:
        """Refuses an unknown name; there are no weights to load."""
        if self._constant is None and self._model_id not in ("", "demo", "hash"):
            name = shown_place(self._model_id)
            raise LoadError(f"the demo backend knows no model {name!r}: give hash or constant:TEXT")

    def properties(self) -> dict[str, str]:
        """Notes that the answers do not come from a model."""
        return {"device": "none", "note": "no weights: answers come from a hash of the request"}

    def generate(self, request: Request) -> str:
        """Answers with an option of the prompt, or continues the beginning of such an answer."""
        if not request.continues or request.config.HasField("response_format"):
            return self._answer(request, request.config)
        answer = " " + self._answer(replace(request, messages=request.messages[:-1]), request.config)
        begun = f" {request.answer_prefix}"
        return next(answer[size:] for size in range(len(answer), -1, -1) if begun.endswith(answer[:size]))

    def render(self, request: Request) -> tuple[str, list[int]]:
        """Returns the hashed text and its ids: a word's CRC-32, and 0 for each token of media."""
        seconds = sum(math.ceil(sound.duration * self.audio_tokens) for sound in request.audio)
        pictures = len(request.image_bytes) + sum(len(video.images) for video in request.videos)
        media = [0] * (self.image_tokens * pictures + seconds)
        return request.text, media + [_number(word) for word in self.tokenize(request.text)]

    def likelihood(self, request: Request, continuations: Sequence[str]) -> list[Score]:
        """Gives each word of its own greedy answer probability 0.9, and any other word less, by a hash."""
        greedy = self.tokenize(self.generate(request))
        prompt, begun = _digest(request), request.answer_prefix
        return [self._score(prompt, begun, self.tokenize(text), greedy) for text in continuations]

    def _answer(self, request: Request, config: model.GenerationConfig) -> str:
        choices = config.response_format.choices.texts
        if self._constant is not None and (not choices or self._constant in choices):
            return self._constant
        seed = config.seed if config.temperature > 0 else None
        draw = int.from_bytes(hashlib.sha256(_digest(request) + repr(seed).encode()).digest()[:8], "big")
        if choices:
            return choices[draw % len(choices)]
        text = request.text
        for pattern in (_LETTERED, _NUMBERED, _NUMBERS):
            options = sorted(set(pattern.findall(text)))
            if pattern is _NUMBERS and options:
                options.append(str(int(options[-1]) + 1))
            if len(options) > 1:
                choice = options[draw % len(options)]
                return f"Answer: {choice}" if _LETTER_LINE.search(text) else choice
        if re.search(r"\bhow many\b", text, re.IGNORECASE):
            return str(draw % 10)
        if _POLAR.search(text):
            return ("yes", "no")[draw % 2]
        if re.search(r"\banswer\b|\bchoose\b|\boptions?\b", text, re.IGNORECASE):
            return str(1 + draw % 4)
        return f"This is the demo backend without weights; it saw {len(request.image_bytes)} image(s)."

    @staticmethod
    def _score(prompt: bytes, begun: str, tokens: Sequence[str], greedy: Sequence[str]) -> Score:
        scored: list[tuple[str, float]] = []
        on_path = True
        for index, token in enumerate(tokens):
            on_path = on_path and index < len(greedy) and greedy[index] == token
            prefix = (begun + "".join(tokens[: index + 1])).encode()
            share = int.from_bytes(hashlib.sha256(prompt + prefix).digest()[:8], "big") / 2**64
            scored.append((token, math.log(_GREEDY if on_path else (1 - _GREEDY) * (share + 1e-9) / 2)))
        return Score(sum(logprob for _, logprob in scored), scored, on_path, [_number(token) for token in tokens])


def _number(word: str) -> int:
    return zlib.crc32(word.encode())


def _digest(request: Request) -> bytes:
    digest = hashlib.sha256()
    for message in request.messages[:-1] if request.continues else request.messages:
        digest.update(b"%d" % message.role)
        for part in message.parts:
            if part.WhichOneof("kind") == "text":
                digest.update(b"t" + part.text.encode())
            elif part.HasField("image"):
                digest.update(b"i" + images.digest(part.image))
    digest.update(request.messages[-1].reasoning.encode())
    for sound in request.audio:
        digest.update(b"a" + hashlib.sha256(sound.samples.tobytes()).digest())
    for video in request.videos:
        for frame in video.images:
            digest.update(b"v" + hashlib.sha256(frame.tobytes()).digest())
    return digest.digest()
