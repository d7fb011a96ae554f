"""Collates prompts into batches: padded on the left, images one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from model_server.hf.checkpoint import Checkpoint
from model_server.hf.family import Prefill, runs_along
from model_server.hf.inputs import Prompt

Inputs = dict[str, torch.Tensor]
Replace = Callable[[dict[str, Any]], dict[str, Any]]
"""Replaces pixels by cached vision features."""
Features = Callable[[Sequence[Prompt]], Replace | None]
"""Returns the replacement of some prompts' image inputs; None where vision features are not cached."""
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
    """Prefills prompts of one signature.

    Args:
        checkpoint: The model.
        prompts: Their inputs.
        replace: Replaces the image inputs if vision features are cached.
    """
    inputs: dict[str, Any] = to_batch(checkpoint, prompts)
    if replace is not None:
        inputs = replace(inputs)
    checkpoint.family.reset(checkpoint.model)
    return checkpoint.family.prefill(checkpoint.model, inputs)


def to_device(inputs: Inputs, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Moves inputs to a device.

    Floating-point inputs are cast to the model's dtype, except times: positions are computed from them.
    """
    return {
        name: value.to(device, dtype) if value.is_floating_point() and name not in _TIMES else value.to(device)
        for name, value in inputs.items()
    }


def _pad(value: torch.Tensor, before: int, after: int, fill: int = 0) -> torch.Tensor:
    """Returns the value padded along its second dimension."""
    other_axes = (0, 0) * (value.dim() - 2)
    return torch.nn.functional.pad(value, (*other_axes, before, after), value=fill) if before or after else value
