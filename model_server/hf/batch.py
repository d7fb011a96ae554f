"""Prompts side by side: padded on the left, images one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from model_server.hf.checkpoint import Checkpoint
from model_server.hf.family import Prefill, runs_along
from model_server.hf.inputs import Prompt

Inputs = dict[str, torch.Tensor]
Replace = Callable[[dict[str, Any]], dict[str, Any]]
"""Puts kept vision features in the place of pixels."""
Features = Callable[[Sequence[Prompt]], Replace | None]
"""Returns what replaces the image inputs of some prompts; None where vision features are not kept."""
_TIMES = {"second_per_grid_ts", "video_second_per_grid"}


def collate(prompts: Sequence[Inputs], pad: int) -> Inputs:
    """Returns one batch of several prompts of the same signature.

    Args:
        prompts: Inputs of batch dimension 1; those of the images alone will do.
        pad: The token to pad with.
    """
    if len(prompts) == 1:
        return dict(prompts[0])
    length = max((p["input_ids"].shape[1] for p in prompts if "input_ids" in p), default=0)
    batch: Inputs = {}
    for name, value in prompts[0].items():
        if runs_along(name, value):
            fill = pad if name == "input_ids" else -1 if name == "image_patches_indices" else 0
            batch[name] = torch.cat([_pad(p[name], length - p[name].shape[1], 0, fill) for p in prompts])
        elif name.startswith("qformer_"):
            longest = max(p[name].shape[1] for p in prompts)
            batch[name] = torch.cat([_pad(p[name], 0, longest - p[name].shape[1]) for p in prompts])
        else:
            batch[name] = torch.cat([p[name] for p in prompts])
    return batch


def to_batch(checkpoint: Checkpoint, prompts: Sequence[Inputs]) -> Inputs:
    """Returns one batch of prompts of the same signature, on the model's device."""
    batch = collate(prompts, checkpoint.tokenizer.pad_token_id or 0)
    return to_device(batch, checkpoint.device, checkpoint.model.dtype)


def prefill(checkpoint: Checkpoint, prompts: Sequence[Inputs], replace: Replace | None = None) -> Prefill:
    """Has the model read prompts of one signature.

    Args:
        checkpoint: The model.
        prompts: Their inputs.
        replace: Replaces the image inputs, where vision features are kept.
    """
    inputs: dict[str, Any] = to_batch(checkpoint, prompts)
    if replace is not None:
        inputs = replace(inputs)
    checkpoint.family.reset(checkpoint.model)
    return checkpoint.family.prefill(checkpoint.model, inputs)


def to_device(inputs: Inputs, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Moves inputs; floating ones take the model's number format, but times, of which positions are made."""
    return {
        name: value.to(device, dtype) if value.is_floating_point() and name not in _TIMES else value.to(device)
        for name, value in inputs.items()
    }


def _pad(value: torch.Tensor, before: int, after: int, fill: int = 0) -> torch.Tensor:
    """The value with more places along its second dimension."""
    behind = (0, 0) * (value.dim() - 2)
    return torch.nn.functional.pad(value, (*behind, before, after), value=fill) if before or after else value
