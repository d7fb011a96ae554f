"""A model server that zooms in once by DeepEyes' protocol, then answers.

`python tests/helpers/looking_server.py --port 0`.
"""

from __future__ import annotations

import re

from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Model, Output, Request, main


class Looking(Model):
    """Knows the answer to every second row, and else prefers the first place."""

    name = "looking"
    revision = "1"
    max_context_tokens = 1 << 20
    multi_image = True

    def generate(self, request: Request) -> Output:
        text = "\n".join(part.text for message in request.messages for part in message.parts)
        if not any(message.role == model.ROLE_ASSISTANT for message in request.messages):
            call = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [8, 8, 24, 24]}}'
            return Output(f"<think>I look closer.</think><tool_call>{call}</tool_call>")
        number = int(re.search(r"row (\d+)", text)[1])
        right = re.search(r"^([A-D])\. right", text, re.MULTILINE)
        letter = right[1] if right and number % 2 else "A"
        return Output(f"<think>I see.</think><answer>{letter}</answer>")


if __name__ == "__main__":
    main(Looking)
