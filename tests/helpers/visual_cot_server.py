"""A model server that draws and answers: `python visual_cot_server.py`, told by VISUAL_COT what to do.

"both" draws a diagram that holds the hash of the puzzle and answers only where puzzle and diagram
belong together; "reader" cannot draw; "writer" says words in the place of a diagram; "endpoint" does as "both" and
is no ModelService but an OpenAI-compatible endpoint that draws in each of three ways.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import socket
from pathlib import Path
from typing import Any

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
    from aiohttp import web

    from helpers.openai_endpoint import completion

    flags = argparse.ArgumentParser()
    flags.add_argument("--port", type=int)
    flags.add_argument("--port-file", type=Path)
    where, model = flags.parse_args(), Drawing()
    model.load()

    def encoded(text: str, files: list[bytes]) -> str:
        return base64.b64encode(diagram(files[0])).decode() if text.startswith("You are given a") else ""

    def taken(parts: Any) -> tuple[str, list[bytes]]:
        """The texts and images of a turn, in the form of either API."""
        links = [part["image_url"] for part in parts if "image_url" in part]
        urls = [link if isinstance(link, str) else link["url"] for link in links]
        return "".join(part.get("text", "") for part in parts), [base64.b64decode(url.split(",")[1]) for url in urls]

    async def chat(request: web.Request) -> web.Response:
        text, files = taken((await request.json())["messages"][0]["content"])
        if picture := encoded(text, files):
            link = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
            return web.json_response(completion([{"type": "text", "text": "Here it is."}, link]))
        return web.json_response(completion(model.answer(*files)))

    async def responses(request: web.Request) -> web.Response:
        picture = encoded(*taken((await request.json())["input"][0]["content"]))
        call = {"type": "image_generation_call", "id": "i", "status": "completed", "result": picture}
        return web.json_response({"id": "r", "object": "response", "status": "completed", "output": [call]})

    async def edits(request: web.Request) -> web.Response:
        form = await request.post()
        files = [value.file.read() for value in form.values() if isinstance(value, web.FileField)]
        return web.json_response({"created": 0, "data": [{"b64_json": encoded(str(form["prompt"]), files)}]})

    app = web.Application(client_max_size=2**26)
    app.router.add_get("/v1/models", lambda _: web.json_response({"object": "list", "data": []}))
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/responses", responses)
    app.router.add_post("/v1/images/edits", edits)
    listener = socket.create_server(("127.0.0.1", where.port))
    written = where.port_file.with_suffix(".new")
    written.write_text(str(listener.getsockname()[1]))
    written.rename(where.port_file)
    web.run_app(app, sock=listener, print=None)


if __name__ == "__main__":
    endpoint() if KIND == "endpoint" else main(Drawing)
