"""An OpenAI-compatible endpoint that draws in each of three ways, as a process."""

from __future__ import annotations

import argparse
import base64
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from helpers.openai_endpoint import completion

Answer = Callable[[str, list[bytes], bool], str | bytes]
"""Answers a text and images, with words or a PNG, where an image may be asked for."""


def run(answer: Answer) -> None:
    """Serves --port until the process ends, and writes the port to --port-file."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--port", type=int)
    flags.add_argument("--port-file", type=Path)
    where = flags.parse_args()

    def reply(parts: Any, draws: bool) -> tuple[str, str]:
        """Returns words and an image in base64 for the texts and images of a turn, in the form of either API."""
        if isinstance(parts, str):
            parts = [{"text": parts}]
        links = [part["image_url"] for part in parts if "image_url" in part]
        urls = [link if isinstance(link, str) else link["url"] for link in links]
        files = [base64.b64decode(url.split(",")[1]) for url in urls]
        drawn = answer("".join(part.get("text", "") for part in parts), files, draws)
        return (drawn, "") if isinstance(drawn, str) else ("Here it is.", base64.b64encode(drawn).decode())

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        text, picture = reply(body["messages"][-1]["content"], "modalities" in body)
        if not picture:
            return web.json_response(completion(text))
        link = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
        return web.json_response(completion([{"type": "text", "text": text}, link]))

    async def responses(request: web.Request) -> web.Response:
        _, picture = reply((await request.json())["input"][0]["content"], True)
        call = {"type": "image_generation_call", "id": "i", "status": "completed", "result": picture}
        return web.json_response({"id": "r", "object": "response", "status": "completed", "output": [call]})

    async def edits(request: web.Request) -> web.Response:
        form = await request.post()
        files = [value.file.read() for value in form.values() if isinstance(value, web.FileField)]
        drawn = answer(str(form["prompt"]), files, True)
        assert isinstance(drawn, bytes)
        return web.json_response({"created": 0, "data": [{"b64_json": base64.b64encode(drawn).decode()}]})

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
