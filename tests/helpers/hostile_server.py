"""A model server that is of no use, in the way that a file names: `python tests/helpers/hostile_server.py WAY`."""

from __future__ import annotations

import os
from pathlib import Path

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest
from model_server.kit import Model, Output, Request, main

SAYS = {
    "undecided": "Yes or no? It is hard to tell.",
    "always_a": "A",
    "always_wrong": "D",
    "empty": "",
    "refuses": "I'm sorry, but I can't help with that.",
    "garbage": "\ufffd\x1b[31m ŧ€¶ ŧ€¶ \u202e %n%n ¿¿",
    "lists": "The options are A, B, C and D. Yes, no, 3 and 4, red, green and blue are possible answers.",
    "truncated": "Let me look at the picture closely. First of all, I consider what the",
}


class Hostile(Model):
    name = "hostile"
    max_context_tokens = 1 << 16

    def generate(self, request: Request) -> str | Output:
        way = Path(os.environ["HOSTILE"]).read_text()
        if way == "error":
            raise InternalFailure("out_of_order", "the device is gone")
        if way == "unreadable":
            raise InvalidRequest("bad_image", "the image cannot be decoded")
        if way == "echo":
            return request.text
        if way == "truncated":
            return Output(f"{SAYS[way]} {len(request.text)}", model.FINISH_REASON_MAX_TOKENS)
        # A server that is out of its mind does not say the same thing twice.
        return SAYS[way] if way != "garbage" else SAYS[way] + hex(hash(request.text))


if __name__ == "__main__":
    main(Hostile)
