"""The size at which a model sees the images of a prompt, from its processor's output."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from lyncean.model.v1 import model_pb2 as model
from model_server.hf.checkpoint import Checkpoint, image_processor


def sizes(inputs: Mapping[str, torch.Tensor], count: int, checkpoint: Checkpoint) -> list[model.ImageUsage]:
    """Returns the size of each image in pixels after the processor; empty if the inputs do not tell.

    Args:
        inputs: The processor's output.
        count: Images of the prompt.
        checkpoint: The model with its processor.
    """
    shapes: list[tuple[int, int]] = []
    patch = getattr(image_processor(checkpoint.processor), "patch_size", None)
    grids, pixels, real = (inputs.get(name) for name in ("image_grid_thw", "pixel_values", "image_sizes"))
    if grids is not None and isinstance(patch, int):
        shapes = [(wide * patch, high * patch) for _, high, wide in grids.tolist()]
    elif pixels is not None and pixels.ndim == 4 and len(pixels) == count:  # else an image is cut into tiles
        shapes = [(pixels.shape[3], pixels.shape[2])] * count
        if real is not None:  # those of several sizes are padded to the largest
            shapes = [(wide, high) for high, wide in real.tolist()]
    return [model.ImageUsage(width=wide, height=high) for wide, high in shapes] if len(shapes) == count else []
