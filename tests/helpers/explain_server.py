"""A model server whose answers change for known reasons: `explain_server.py [--revision R] [--noise 1] [--fails N]`.

It reads the right letter off the prompt ("B. key 3"). It answers one row of four wrongly, and one row of three for each
of these: "Think hard" in the prompt, an image below 32 pixels, another revision, `--noise`. It names the wrong letter
first and the answer on the next line, so that a stop string or a short limit leaves nothing to read. With `--fails` it
fails for every N-th row.
"""

from __future__ import annotations

import hashlib
import re
import sys

from lyncean.rpc import InternalFailure
from model_server.kit import Model, Request, main

FLAGS = {name: sys.argv[sys.argv.index(name) + 1] for name in ("--revision", "--fails", "--noise") if name in sys.argv}
for flag, value in FLAGS.items():
    sys.argv.remove(flag)
    sys.argv.remove(value)


class Changeable(Model):
    name = "changeable"
    revision = FLAGS.get("--revision", "1")

    def generate(self, request: Request) -> str:
        match = re.search(r"([AB])[.)] key (\d+)", request.text)
        assert match, request.text
        letter, row = match[1], int(match[2])
        if "--fails" in FLAGS and row % int(FLAGS["--fails"]) == 0:
            raise InternalFailure("broken", "it never works")
        reasons = [
            "Think hard" in request.text,
            any(image.width < 32 for image in request.images),
            self.revision != "1",
            "--noise" in FLAGS,
        ]
        wrong = _share(row, "base", 4) or any(
            reason and _share(row, str(number), 3) for number, reason in enumerate(reasons)
        )
        chosen = "BA"["AB".index(letter)] if wrong else letter
        return f"Not {'BA'['AB'.index(chosen)]} for sure.\nAnswer: {chosen}"


def _share(row: int, why: str, of: int) -> bool:
    return hashlib.sha256(f"{row} {why}".encode()).digest()[0] % of == 0


if __name__ == "__main__":
    main(Changeable)
