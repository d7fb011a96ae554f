"""A model server that runs code over three calls, by the contract's own tools or DeepEyesV2's protocol, then answers.

It looks nowhere but into the request: the letter that it answers is what the code printed last.
`python tests/helpers/coding_server.py --port 0`.
"""

from __future__ import annotations

from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Model, Output, Request, main

CODES = (
    "pixels = np.asarray(image_1.convert('L')).astype(int)\nprint(pixels.shape)",
    "def letter(n):\n    return 'ABCD'[n % 4]\ndisplay(Image.fromarray(pixels[:32, :32].astype(np.uint8)))",
    "import time\nprint(time.time())\nprint(letter(pixels.sum()))",
)


class Coding(Model):
    name = "coding"
    revision = "1"
    max_context_tokens = 1 << 20
    max_concurrency = 16
    multi_image = True
    tools = True

    def generate(self, request: Request) -> Output:
        answers = sum(message.role == model.ROLE_ASSISTANT for message in request.messages)
        if answers >= len(CODES):
            letter = next(word for word in reversed(_words(request.messages[-1])) if word in "ABCD")
            return Output(f"<answer>{letter}</answer>" if not request.tools else f"The answer is {letter}.")
        if request.tools:
            return Output("", tool_calls=[("python", {"code": CODES[answers]})])
        return Output(f"<think>So.</think>\n<code>\n```python\n{CODES[answers]}\n```\n")


def _words(message: model.Message) -> list[str]:
    parts = [piece for part in message.parts for piece in (part, *part.tool_result.content)]
    return " ".join(part.text for part in parts).split()


if __name__ == "__main__":
    main(Coding)
