"""Prompts that begin alike: what was computed up to the last image is kept, and asked again behind it.

A prompt with images is always read in two passes, up to its last image token and from there, whether the first pass was
kept or not, and each pass by itself. So an answer is the same to the bit whatever was asked before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from model_server.hf.batch import Replace, prefill
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.family import SEQUENCES, Prefill
from model_server.hf.prompt import Prompt
from model_server.lru import LruCache

Features = Callable[[Sequence[Prompt]], Replace | None]


@dataclass(frozen=True)
class _Kept:
    """Keys and values of a prompt's beginning, layer by layer: [1, heads, tokens, dimension] each."""

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    next_position: torch.Tensor

    @property
    def size(self) -> int:
        return sum(each.numel() * each.element_size() for pair in self.layers for each in pair)


class PrefixCache:
    """Reads prompts with images, and keeps their beginnings; the least recently used go first.

    Args:
        checkpoint: The model.
        limit: Bytes to keep.
        features: Returns what replaces the image inputs of some prompts, where vision features are kept.
    """

    def __init__(self, checkpoint: Checkpoint, limit: int, features: Features = lambda prompts: None) -> None:
        self._checkpoint = checkpoint
        self._features = features
        self._images = checkpoint.family.image_token_ids(checkpoint)
        self._kept = LruCache[tuple[Any, ...], _Kept](limit)

    def boundary(self, prompt: Prompt, length: int) -> int:
        """Returns how many of a prompt's first tokens are read by themselves; 0 where it is read at once.

        Args:
            prompt: The prompt.
            length: Tokens of it that are read in all.
        """
        if not prompt.image_keys:
            return 0
        last = next((place for place in range(length - 1, -1, -1) if prompt.ids[place] in self._images), -1)
        return last + 1 if last + 1 < length else 0

    @torch.inference_mode()
    def read(self, prompt: Prompt, length: int) -> tuple[Prefill, int]:
        """Reads the first tokens of a prompt that has a boundary.

        Args:
            prompt: The prompt.
            length: How many tokens, more than the boundary.

        Returns:
            What was read, and how many of its tokens had been before.
        """
        boundary = self.boundary(prompt, length)
        key = self._key(prompt, boundary)
        kept = self._kept.get(key)
        cached = boundary if kept else 0
        if kept is None:
            kept = self._read_beginning(prompt, boundary)
            self._kept.put(key, kept, kept.size)
        return self._read_rest(prompt, length, boundary, kept), cached

    def clear(self) -> None:
        """Forgets everything, to free its memory."""
        self._kept.clear()

    def _key(self, prompt: Prompt, boundary: int) -> tuple[Any, ...]:
        """Returns what a beginning depends on: its tokens, its images, and what else the model is told beside them."""
        digest = hashlib.sha256()
        for name, value in sorted(prompt.inputs.items()):
            if name not in SEQUENCES and not value.is_floating_point():
                digest.update(name.encode() + value.numpy().tobytes())  # such as the question that a Q-Former reads
        return (prompt.image_keys, prompt.signature, tuple(prompt.ids[:boundary]), digest.digest())

    def _read_beginning(self, prompt: Prompt, boundary: int) -> _Kept:
        inputs = self._checkpoint.family.extend(prompt.inputs, boundary, ())
        state = prefill(self._checkpoint, [inputs], self._features([prompt]))
        layers = [(layer.keys, layer.values) for layer in state.cache.layers]
        return _Kept(layers, state.next_position)

    def _read_rest(self, prompt: Prompt, length: int, boundary: int, kept: _Kept) -> Prefill:
        cache, device = DynamicCache(), self._checkpoint.device
        for layer, (keys, values) in enumerate(kept.layers):
            cache.update(keys, values, layer)
        state = Prefill(
            torch.empty(0), cache, torch.ones((1, boundary), dtype=torch.long, device=device), kept.next_position, {}
        )
        rest = length - boundary
        visible = torch.ones((rest, length), dtype=torch.bool, device=device).tril(boundary)[None]
        positions = kept.next_position[:, None] + torch.arange(rest, device=device)
        ids = torch.tensor([prompt.ids[boundary:length]], device=device)
        logits = self._checkpoint.family.step(self._checkpoint.model, state, ids, positions, visible)
        state.last = logits[:, -1]
        state.mask = torch.ones((1, length), dtype=torch.long, device=device)
        state.next_position = kept.next_position + rest
        return state
