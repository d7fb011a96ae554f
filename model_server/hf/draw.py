"""Images as output, for models that draw as well as see: one class for each way of drawing.

A new class names its tokens, the text after a prompt, and the library's way from both to pixels.
"""

from __future__ import annotations

import copy
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from model_server.hf.batch import to_batch, to_device
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.inputs import Prompt


class Drawer(ABC):
    """Draws one image at a time.

    Args:
        checkpoint: The model.

    Attributes:
        tokens: Tokens of one drawn image.
        takes_images: Whether a prompt may hold images.
        suffix: Text after the rendered prompt of an image.
        processor_kwargs: Arguments of the processor for the prompt of an image.
    """

    tokens = 0
    takes_images = False
    suffix = ""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self.processor_kwargs: dict[str, Any] = {}

    @torch.inference_mode()
    def draw(self, prompt: Prompt, config: model.GenerationConfig) -> bytes:
        """Draws one image and returns it as PNG.

        The library draws from torch's global generator here, so it is seeded for this call alone and put back.
        """
        settings = copy.deepcopy(self._checkpoint.model.generation_config)
        settings.update(do_sample=config.temperature > 0, max_new_tokens=self.tokens)
        if config.temperature > 0:
            settings.update(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)
        inputs: dict[str, Any] = to_batch(self._checkpoint, [prompt.inputs])
        device = self._checkpoint.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(config.seed)
            image = self._image(inputs, settings)
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()

    @abstractmethod
    def _image(self, inputs: dict[str, Any], settings: Any) -> Image.Image:
        """Runs the model and decodes the image.

        Args:
            inputs: The prompt, on the device.
            settings: The library's settings of generation.
        """


class JanusDrawer(Drawer):
    """Janus: from text alone, by the library's own loop."""

    GUIDANCE = 5.0
    """Weight of the prompt against no prompt: the value that its authors use."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        self.tokens = int(checkpoint.model.model.vision_model.config.num_image_tokens)
        self.processor_kwargs = {"generation_mode": "image"}

    def _image(self, inputs: dict[str, Any], settings: Any) -> Image.Image:
        net = self._checkpoint.model
        settings.update(guidance_scale=self.GUIDANCE)
        pixels = net.decode_image_tokens(net.generate(**inputs, generation_mode="image", generation_config=settings))
        image = self._checkpoint.processor.postprocess(list(pixels.float()), return_tensors="pt")["pixel_values"][0]
        if image.shape[0] == 3:
            image = image.permute(1, 2, 0)
        return Image.fromarray(image.clamp(0, 255).round().byte().cpu().numpy())


class Emu3Drawer(Drawer):
    """Emu3: lines of image tokens after the prompt, in the vocabulary of its text; the prompt may hold images."""

    GUIDANCE = 3.0
    """Weight of the prompt against the negative prompt; both as in the library's example."""
    UNWANTED = (
        "lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, worst "
        "quality, low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry."
    )
    takes_images = True

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        processor = checkpoint.processor
        chosen = processor.image_processor  # it carries the user's settings
        size = {name: getattr(chosen, name, getattr(processor, name)) for name in ("ratio", "image_area")}
        self._height, self._width = processor.calculate_generate_size(**size, spatial_factor=processor.downsample_ratio)
        self.tokens = self._height * (self._width + 1) + 3
        self.suffix = f"{processor.image_start_token}{self._height}*{self._width}{processor.fake_token_around_image}"
        mapping, tokenizer = checkpoint.model.model.vocabulary_mapping, checkpoint.tokenizer
        self._lines = list(mapping.image_tokens)
        ends = (processor.eof_token, processor.image_end_token, tokenizer.eos_token)
        self._line_end, self._ends = mapping.eol_token_id, tokenizer.convert_tokens_to_ids(list(ends))

    def _image(self, inputs: dict[str, Any], settings: Any) -> Image.Image:
        begin = inputs["input_ids"].shape[1]
        checkpoint = self._checkpoint
        unwanted = checkpoint.tokenizer([checkpoint.tokenizer.bos_token + self.UNWANTED + self.suffix])
        negative = to_device(
            {name: torch.tensor(unwanted[name]) for name in ("input_ids", "attention_mask")},
            checkpoint.device,
            checkpoint.model.dtype,
        )

        def allowed(row: int, ids: torch.Tensor) -> Sequence[int]:
            position = len(ids) - begin
            if position >= self.tokens - 3:
                return [self._ends[position - self.tokens + 3]]
            return [self._line_end] if position % (self._width + 1) == self._width else self._lines

        settings.update(guidance_scale=self.GUIDANCE)
        out = checkpoint.model.generate(
            **inputs,
            generation_config=settings,
            prefix_allowed_tokens_fn=allowed,
            negative_prompt_ids=negative["input_ids"],
            negative_prompt_attention_mask=negative["attention_mask"],
        )
        pixels = checkpoint.model.decode_image_tokens(
            image_tokens=out[:, begin:], height=self._height, width=self._width
        )
        # Asked for tensors, the processor returns single channels.
        form = "PIL.Image.Image"
        images = checkpoint.processor.postprocess(list(pixels.float().cpu()), return_tensors=form)["pixel_values"]
        image: Image.Image = images[0]
        return image


_DRAWERS: dict[str, type[Drawer]] = {"janus": JanusDrawer, "emu3": Emu3Drawer}


def drawer_of(checkpoint: Checkpoint) -> Drawer | None:
    """Returns the drawer of a checkpoint; None if it does not draw."""
    kind = _DRAWERS.get(checkpoint.kind)
    return kind(checkpoint) if kind else None
