"""A model server that works with `python`, `git_show` and `zoom`, some of them in each answer; then it answers.

`REPOSITORY=FOLDER python tests/helpers/working_server.py --port 0`; the answer follows from all results.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from helpers.calling_server import Calling, first_text
from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Output, Request, main


class Working(Calling):
    name = "working"

    def generate(self, request: Request) -> Output:
        digest = hashlib.sha256(first_text(request).encode()).digest()
        answers = sum(message.role == model.ROLE_ASSISTANT for message in request.messages)
        if answers <= digest[0] % 4:
            return Output("Next.", tool_calls=_calls(digest, answers))
        seen = hashlib.sha256(b"%d" % request.config.seed)
        for message in request.messages:
            for part in message.parts if message.role == model.ROLE_TOOL else ():
                assert not part.tool_result.is_error, part.tool_result
                for piece in part.tool_result.content:
                    seen.update(piece.text.encode() or piece.image.data)
        return Output(f"The answer is {'ABCD'[seen.digest()[0] % 4]}.")


def _calls(digest: bytes, answers: int) -> list[tuple[str, Any]]:
    left = digest[answers + 1] % 128
    calls: list[tuple[str, Any]] = [("python", {"code": f"seen = globals().get('seen', 0) + {left}\nseen"})]
    if digest[answers + 5] % 2:
        calls.append(("git_show", {"repo_path": os.environ["REPOSITORY"], "revision": "HEAD"}))
    if digest[answers + 9] % 2:
        calls.insert(0, ("zoom", {"image": 1, "box": [left, 0, left + 500, 500]}))
    return calls


if __name__ == "__main__":
    main(Working)
