"""A model server that calls tools by the contract: `add`, `note`, `zoom` and `mirror`; then it answers.

Each answer follows from the request alone, and the last one from all results.
`python tests/helpers/calling_server.py --port 0`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Model, Output, Request, main


class Calling(Model):
    name = "calling"
    revision = "1"
    max_context_tokens = 1 << 20
    max_concurrency = 64
    multi_image = True
    tools = True

    def generate(self, request: Request) -> Output:
        digest = hashlib.sha256(first_text(request).encode()).digest()
        answers = sum(message.role == model.ROLE_ASSISTANT for message in request.messages)
        if answers <= digest[0] % 4:
            return Output("Next.", tool_calls=list(calls(digest, answers, {tool.name for tool in request.tools})))
        seen = hashlib.sha256(b"%d" % request.config.seed)
        for message in request.messages:
            for part in message.parts if message.role == model.ROLE_TOOL else ():
                for piece in part.tool_result.content:
                    seen.update(piece.text.encode() or piece.image.data)
        return Output(f"The answer is {'ABCD'[seen.digest()[0] % 4]}.")


def first_text(request: Request) -> str:
    """Returns the text of the user's first message."""
    first = next(message for message in request.messages if message.role == model.ROLE_USER)
    return "".join(part.text for part in first.parts)


def calls(digest: bytes, answers: int, names: set[str]) -> list[tuple[str, dict[str, Any] | str]]:
    """Returns the calls of one answer, several and wrong ones among them, of the tools that there are."""
    planned: list[tuple[str, dict[str, Any] | str]] = [("add", {"number": digest[answers + 1] - 60})]
    if digest[answers + 5] % 4 == 0:
        left = digest[answers + 9] % 128
        planned.append(("zoom", {"image": 1, "box": [left, 0, left + 500, 500]}))
    if digest[answers + 13] % 3 == 0:
        planned.append(("mirror", {"image": 1 + answers}))
    if digest[answers + 15] % 3 == 0:
        planned.append(("note", {"text": f"step {answers}"}))
    if digest[answers + 17] % 5 == 0:
        planned.insert(0, ("add", json.dumps({"number": "many"})))
    return [call for call in planned if call[0] in names]


if __name__ == "__main__":
    main(Calling)
