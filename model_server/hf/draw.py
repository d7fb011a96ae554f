"""Images as output, for models that draw as well as see."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from model_server.hf.batch import to_batch
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.prompt import Prompt

GUIDANCE = 5.0
"""Weight of the prompt against no prompt: the value that Janus's authors use."""


def image_tokens(checkpoint: Checkpoint) -> int:
    """Returns how many tokens one drawn image takes."""
    return int(checkpoint.model.model.vision_model.config.num_image_tokens)


@torch.inference_mode()
def draw(checkpoint: Checkpoint, prompt: Prompt, config: model.GenerationConfig) -> bytes:
    """Draws one image and returns it as PNG.

    The library draws from torch's global generator here, so it is seeded for this call alone
    and put back; one image is drawn at a time.
    """
    net = checkpoint.model
    settings = copy.deepcopy(net.generation_config)
    settings.update(do_sample=config.temperature > 0, guidance_scale=GUIDANCE, max_new_tokens=image_tokens(checkpoint))
    if config.temperature > 0:
        settings.update(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)
    inputs: dict[str, Any] = to_batch(checkpoint, [prompt.inputs])
    devices = [checkpoint.device] if checkpoint.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(config.seed)
        tokens = net.generate(**inputs, generation_mode="image", generation_config=settings)
    pixels = net.decode_image_tokens(tokens)
    pixels = checkpoint.processor.postprocess(list(pixels.float()), return_tensors="pt")["pixel_values"][0]
    if pixels.shape[0] == 3:
        pixels = pixels.permute(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels.clamp(0, 255).round().byte().cpu().numpy()).save(buffer, "PNG")
    return buffer.getvalue()
