"""A model server that always gives the answer of $ANSWER: `ANSWER=3 python tests/helpers/answering_server.py`."""

from __future__ import annotations

import os

from model_server.kit import Model, Request, main


class Answering(Model):
    name = "answering"
    revision = "1"
    max_context_tokens = 1 << 16

    def generate(self, request: Request) -> str:
        return os.environ["ANSWER"]


if __name__ == "__main__":
    main(Answering)
