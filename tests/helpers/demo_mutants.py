"""A model server with the demo model, broken on purpose: `python demo_mutants.py MUTATION --port ...`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import ImageOps

from lyncean.model.v1 import model_pb2 as model
from model_server import cli, images
from model_server.hf.inputs import Joined, Prompt
from model_server.hf.prompt import Prompter

TEMPLATE = Path(__file__).with_name("foreign_template.jinja")


def _messages_changed(change: Callable[[list[model.Part]], list[model.Part]]) -> None:
    """Changes each message's parts before they are prepared."""
    original = Prompter.prepare

    def prepare(self: Prompter, messages: Sequence[model.Message], **more: Any) -> Prompt:
        changed = [model.Message(role=one.role, parts=change(list(one.parts))) for one in messages]
        return original(self, changed, **more)

    Prompter.prepare = prepare  # type: ignore[method-assign]


def order() -> None:
    """Images in reverse order, texts where they were."""

    def turned(parts: list[model.Part]) -> list[model.Part]:
        pictures = [part for part in parts if part.HasField("image")]
        return [pictures.pop() if part.HasField("image") else part for part in parts]

    _messages_changed(turned)


def dropped() -> None:
    """Of several images, the last is lost."""

    def fewer(parts: list[model.Part]) -> list[model.Part]:
        indices = [index for index, part in enumerate(parts) if part.HasField("image")]
        return [part for index, part in enumerate(parts) if len(indices) < 2 or index != indices[-1]]

    _messages_changed(fewer)


def boundary() -> None:
    """The continuation is taken to stand one token before its place."""
    original = Prompter.join

    def join(self: Prompter, prompt: Prompt, continuations: Sequence[str]) -> list[Joined]:
        return [replace(one, ids=one.ids[:-1], start=one.start - 1) for one in original(self, prompt, continuations)]

    Prompter.join = join  # type: ignore[method-assign]


def mirrored() -> None:
    """Left is right."""
    original = images.decode
    images.decode = lambda *arguments, **more: ImageOps.mirror(original(*arguments, **more))


def none() -> None:
    """As it is."""


if __name__ == "__main__":
    name, *args = sys.argv[1:]
    flags = ["--chat-template", str(TEMPLATE)] if name == "template" else []
    if name != "template":
        {"order": order, "dropped": dropped, "boundary": boundary, "mirrored": mirrored, "none": none}[name]()
    cli.main(["serve", "--backend", "transformers", "--model", "demo", *flags, *args])
