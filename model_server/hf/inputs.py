"""A conversation as the model takes it: its tokens, and what the processor made of its media."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model
from model_server.hf.family import runs_along


@dataclass(frozen=True)
class Prompt:
    """A conversation as the model takes it.

    Attributes:
        inputs: What the processor made, batch dimension 1, on the CPU.
        ids: The prompt's tokens.
        text: What the tokenizer read, placeholders expanded.
        tokens: How many of its tokens stand for media, by the field of `Usage` that counts them.
        image_keys: SHA-256 of each image, in order; empty where clips stand beside them.
        clips: The kinds of clips that it holds.
        media: What was heard and seen of each clip, in order.
        shown: The size at which the model sees each image, in order; empty where it is not known.
        continues: Whether it ends in the beginning of the answer.
        raw: Whether no chat template has rendered it.
    """

    inputs: dict[str, torch.Tensor]
    ids: list[int]
    text: str
    tokens: Mapping[str, int] = field(default_factory=dict)
    image_keys: tuple[str, ...] = ()
    clips: frozenset[Kind] = frozenset()
    media: tuple[model.MediaUsage, ...] = ()
    shown: tuple[model.ImageUsage, ...] = ()
    continues: bool = False
    raw: bool = False

    @property
    def rendered(self) -> model.RenderedPrompt:
        """It as an audit wants to see it."""
        return model.RenderedPrompt(text=self.text, token_ids=self.ids)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Prompts that can share a batch have the same."""
        shapes = ((name, tuple(value.shape[1:])) for name, value in self.inputs.items() if not runs_along(name, value))
        return (self.clips, *shapes)


@dataclass(frozen=True)
class Joined:
    """A prompt with one continuation, tokenized together.

    Attributes:
        ids: All tokens.
        start: Index of the continuation's first token: the first that does not end inside the prompt.
    """

    ids: list[int]
    start: int
