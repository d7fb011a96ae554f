"""A model server that answers as a published table has it: the question says in which runs it is answered right.

`#right in cot, direct: B#` in the text of a question is answered by B in both runs and by another letter elsewhere; of
the options of a question that holds `#right#` the one with the word "right" is the likeliest, of others a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from model_server.kit import Model, Request, Score, main

_MARK = re.compile(r"#right in ([a-z, ]*): ([A-D])#")


class Oracle(Model):
    name = "oracle"
    revision = "1"
    max_context_tokens = 1 << 16
    multi_image = True

    def generate(self, request: Request) -> str:
        match = _MARK.search(request.text)
        if match is None:
            return "I do not know."
        run = "cot" if "Think step by step" in request.text else "direct"
        wrong = "ABCD"[("ABCD".index(match[2]) + 1) % 4]
        letter = match[2] if run in match[1].split(", ") else wrong
        return f"{'Let us see. ' * 3}Answer: ({letter})" if run == "cot" else f"({letter})"

    def likelihood(self, request: Request, continuations: Sequence[str]) -> Sequence[Score]:
        wanted = "right" if "#right#" in request.text else "wrong"
        return [self._score(text, 1.0 if wanted in text else 2.0) for text in continuations]

    def _score(self, text: str, loss: float) -> Score:
        pieces = text.split()
        return Score(-loss * len(pieces), [(word, -loss) for word in pieces])


if __name__ == "__main__":
    main(Oracle)
