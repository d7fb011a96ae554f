"""A model server that zooms in as often as its question says, by DeepEyes' protocol or by the contract's own tools.

Each answer follows from the request alone. `python tests/helpers/zooming_server.py --port 0`.
"""

from __future__ import annotations

import hashlib
import json

from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Model, Output, Request, main


class Zooming(Model):
    name = "zooming"
    revision = "1"
    max_context_tokens = 1 << 20
    max_concurrency = 64
    multi_image = True

    def generate(self, request: Request) -> Output:
        answers = [message for message in request.messages if message.role == model.ROLE_ASSISTANT]
        first = next(message for message in request.messages if message.role == model.ROLE_USER)
        digest = hashlib.sha256("".join(part.text for part in first.parts).encode()).digest()
        if len(answers) < digest[0] % 5:
            box = [digest[1] % 8, digest[2] % 8, 40 + digest[3] % 8 + len(answers), 44]
            if digest[4] % 7 == 0 and not answers:
                box[2] = "far"  # an error that ends the trajectory
            call = json.dumps({"name": "image_zoom_in_tool", "arguments": {"bbox_2d": box}})
            return Output(f"<think>Closer.</think><tool_call>{call}</tool_call>")
        letter = "ABCD"[(digest[5] + request.config.seed) % 4]
        return Output(f"<think>There.</think><answer>{letter}</answer>")


if __name__ == "__main__":
    main(Zooming)
