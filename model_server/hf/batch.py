"""Prompts side by side: padded on the left, images one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model_server.hf.checkpoint import Checkpoint
from model_server.hf.families import SEQUENCES

Inputs = dict[str, torch.Tensor]


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
    for name in prompts[0]:
        if name in SEQUENCES:
            fill = pad if name == "input_ids" else -1 if name == "image_patches_indices" else 0
            batch[name] = torch.cat([_left(p[name], length, fill) for p in prompts])
        elif name.startswith("qformer_"):
            longest = max(p[name].shape[1] for p in prompts)
            batch[name] = torch.cat([_right(p[name], longest) for p in prompts])
        else:
            batch[name] = torch.cat([p[name] for p in prompts])
    return batch


def to_batch(checkpoint: Checkpoint, prompts: Sequence[Inputs]) -> Inputs:
    """Returns one batch of prompts of the same signature, on the model's device."""
    batch = collate(prompts, checkpoint.tokenizer.pad_token_id or 0)
    return to_device(batch, checkpoint.device, checkpoint.model.dtype)


def to_device(inputs: Inputs, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Moves inputs; floating ones take the model's number format."""
    return {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in inputs.items()
    }


def _left(value: torch.Tensor, length: int, fill: int) -> torch.Tensor:
    missing = length - value.shape[1]
    if not missing:
        return value
    shape = (value.shape[0], missing, *value.shape[2:])
    return torch.cat([value.new_full(shape, fill), value], dim=1)


def _right(value: torch.Tensor, length: int) -> torch.Tensor:
    missing = length - value.shape[1]
    return torch.cat([value, value.new_zeros((value.shape[0], missing))], dim=1) if missing else value
