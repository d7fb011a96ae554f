"""A custom model server in a few lines: `python examples/constant_server.py --port 50051`.

It answers "The answer is A." to everything and gives each continuation a likelihood that
agrees with that answer. A real server would load its weights in `load` and run them in the methods below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from model_server.kit import Model, Request, Score, main

ANSWER = "The answer is A."


class Constant(Model):
    name = "constant-a"
    revision = "1"
    max_context_tokens = 8192
    image_tokens = 256

    def generate(self, request: Request) -> str:
        # request.text, request.images (decoded, RGB) and request.config hold the request.
        return ANSWER

    def likelihood(self, request: Request, continuations: Sequence[str]) -> list[Score]:
        return [self._score(text) for text in continuations]

    def _score(self, text: str) -> Score:
        wanted, continuation = self.tokenize(ANSWER), self.tokenize(text)
        tokens, greedy = [], True
        for index, token in enumerate(continuation):
            greedy = greedy and wanted[index : index + 1] == [token]
            tokens.append((token, math.log(0.9 if greedy else 0.1 / 50_000)))
        return Score(sum(logprob for _, logprob in tokens), tokens, greedy)


if __name__ == "__main__":
    main(Constant)
