"""A model server that draws and answers: `python visual_cot_server.py`, told by VISUAL_COT what to do.

"both" draws a diagram that holds the hash of the puzzle and answers only where puzzle and diagram
belong together; "reader" cannot draw; "writer" answers with text in place of a diagram; "endpoint" does as "both" and
is not a ModelService but an OpenAI-compatible endpoint that draws in each of three ways.
"""

from __future__ import annotations

import hashlib
import os

from model_server.kit import Model, Output, Request, main
from orchestrator.benchmarks.drawing import png
from orchestrator.benchmarks.visualpuzzles.benchmark import BENCHMARK

KIND = os.environ["VISUAL_COT"]


def diagram(puzzle: bytes) -> bytes:
    from PIL import Image

    return png(Image.frombytes("L", (8, 4), hashlib.sha256(puzzle).digest()))


class Drawing(Model):
    name = f"visual-cot-{KIND}"
    image_output = KIND != "reader"

    def load(self) -> None:
        rows = [row for row, _ in zip(BENCHMARK.synthetic("VisualPuzzles", 0), range(10), strict=False)]
        self.answers = {hashlib.sha256(row.image()).digest(): row["answer"] for row in rows}

    def generate(self, request: Request) -> str | Output:
        if request.text.startswith("You are given a"):
            if KIND == "writer":
                return "I would rather describe it: a circle."
            return Output("Here it is.", image_files=[diagram(request.image_bytes[0])])
        return self.answer(*request.image_bytes)

    def answer(self, puzzle: bytes, drawn: bytes) -> str:
        if drawn != diagram(puzzle):
            return "That diagram is of another puzzle."
        return f"({self.answers[hashlib.sha256(puzzle).digest()]})"


def endpoint() -> None:
    from helpers import drawing_endpoint

    drawing = Drawing()
    drawing.load()
    drawing_endpoint.run(
        lambda text, files, draws: diagram(files[0]) if text.startswith("You are given a") else drawing.answer(*files)
    )


if __name__ == "__main__":
    endpoint() if KIND == "endpoint" else main(Drawing)
