"""Families of models whose prompting or stepping differs from the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import torch

from lyncean.model.v1 import model_pb2 as model
from model_server.hf.family import Family, ModelParts, Prefill


def family_of(kind: str, net: Any) -> Family:
    """Returns the family of a model type; an unknown type with positions in several dimensions is stepped like Qwen."""
    known = FAMILIES.get(kind)
    axes = _position_axes(net)
    if known is None and axes and hasattr(net.base_model, "rope_deltas"):
        return Qwen(axes)
    return known or Family()


def _position_axes(model: Any) -> int:
    """Returns the dimensions of a token's position: three in Qwen2-VL, four in Hunyuan; 0 for a plain number."""
    for module in model.modules():
        if section := getattr(module, "mrope_section", None):
            return len(next(iter(section.values())) if isinstance(section, dict) else section)
    return 0


class Qwen(Family):
    """Qwen2-VL and its successors: positions in several dimensions, computed by the model from the images.

    Without images the model counts padding as well, so it gets explicit positions.

    Args:
        axes: Dimensions of a position.
    """

    prefill_positions = False
    text_prefill_positions = True

    def __init__(self, axes: int = 3) -> None:
        self._axes = axes

    def reset(self, model: Any) -> None:
        """Clears the position shift of the last image prompt, which would otherwise apply to the next text-only one."""
        model.base_model.rope_deltas = None

    def prefill(self, model: Any, inputs: dict[str, Any]) -> Prefill:
        """Adds the shift that images cause to the next position."""
        self.reset(model)
        state = super().prefill(model, inputs)
        shift = model.base_model.rope_deltas
        if shift is not None:
            state.next_position = state.next_position + shift.view(-1)
        return state

    def text_positions(self, positions: torch.Tensor) -> torch.Tensor:
        """Repeats the position of text in all dimensions."""
        return positions[None].expand(self._axes, -1, -1)


class Hunyuan(Qwen):
    """Hunyuan-VL: an axis of four numbers the images, and the library counts on from prompt to prompt of a batch."""

    def __init__(self) -> None:
        super().__init__(axes=4)

    def prefill(self, model: Any, inputs: dict[str, Any]) -> Prefill:
        """Gives each prompt of a batch the positions that it would have alone."""
        grids, kinds = inputs.get("image_grid_thw"), inputs.get("mm_token_type_ids")
        if grids is None or kinds is None or len(kinds) == 1:
            return super().prefill(model, inputs)
        begins = (kinds == 1) & torch.nn.functional.pad(kinds[:, :-1] != 1, (1, 0), value=True)
        counts = begins.sum(-1).tolist()
        alone = [
            model.base_model.get_rope_index(
                inputs["input_ids"][row : row + 1],
                kinds[row : row + 1],
                image_grid_thw=grid,
                attention_mask=inputs["attention_mask"][row : row + 1],
            )
            for row, grid in enumerate(torch.split(grids, counts))
        ]
        positions = torch.cat([position for position, _ in alone], dim=1)
        state = super().prefill(model, {**inputs, "position_ids": positions})
        shifts = torch.cat([shift.view(-1) for _, shift in alone])
        state.next_position = state.mask.sum(-1) + shifts
        return state


class CosmosEdge(Qwen):
    """Cosmos 3 Edge: as Qwen, but its processor marks image tokens only on request."""

    def processor_kwargs(self, checkpoint: ModelParts) -> dict[str, Any]:
        """Requests the token types from which positions are computed."""
        return {"return_mm_token_type_ids": True}


class PaliGemma(Family):
    """PaliGemma: positions begin at 1; attention is bidirectional in the prompt and causal in the answer."""

    needs_image = True
    first_position = 1
    text_fill = MappingProxyType({"attention_mask": 1, "token_type_ids": 1})


class ImageFirst(Family):
    """Models of exactly one image, which the processor itself puts first."""

    multi_image = False
    needs_image = True


class Blip(ImageFirst):
    """BLIP-2 and InstructBLIP: the outer model requires pixels at each step."""

    text_module = "language_model"


class Mllama(Family):
    """Llama 3.2 Vision: images are seen through cross attention."""

    def step_inputs(self, state: Prefill, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Lets text attend to the images that the prompt's last token attends to."""
        mask = state.inputs.get("cross_attention_mask")
        return {} if mask is None else {"cross_attention_mask": mask[:, -1:].expand(-1, ids.shape[1], -1, -1)}


class Kosmos(ImageFirst):
    """Kosmos-2: explicit positions and masks mislead it; the outer model requires the image at each step."""

    prefill_positions = False
    row_positions = False
    text_module = "text_model"

    def image_token_ids(self, checkpoint: ModelParts) -> frozenset[int]:
        """The ids after the unknown token, one per token of the image."""
        first = checkpoint.tokenizer.unk_token_id + 1
        return frozenset(range(first, first + checkpoint.model.config.latent_query_num))

    def placeholders(self, checkpoint: ModelParts) -> frozenset[str]:
        """The texts that mark an image in a prompt."""
        return frozenset({"<image>", "</image>"})

    def processor_kwargs(self, checkpoint: ModelParts) -> dict[str, Any]:
        """Sets the tokens per image, which only the model's config has."""
        return {"num_image_tokens": checkpoint.model.config.latent_query_num}


class GotOcr(Family):
    """GOT-OCR2: reads pages, which its processor takes in a flat list; its checkpoints have no chat template."""

    needs_image = True

    def nest(self, pictures: list[Any]) -> Any:
        """Returns the images of one prompt as the processor takes them."""
        return pictures

    def plain(self, messages: Sequence[model.Message], checkpoint: ModelParts) -> str:
        """Returns the conversation that its processor writes around its own questions."""
        parts = [part for message in messages for part in message.parts]
        processor = checkpoint.processor
        start, end = processor.message_start_token, processor.message_end_token
        pages = processor.image_token * sum(part.HasField("image") for part in parts)
        question = "\n".join(part.text for part in parts if part.WhichOneof("kind") == "text")
        shown = f"{processor.img_start_token}{pages}{processor.img_end_token}\n{question}"
        return f"{start}{processor.system_query}{end}{start}user\n{shown}{end}{start}assistant\n"


class Janus(Family):
    """Janus: its own `generate` drops the logits processors that it is given, so the library's is called."""

    def generate(self, model: Any, **kwargs: Any) -> None:
        """Runs the library's decoding loop, past the model's override."""
        super(type(model), model).generate(**kwargs)


FAMILIES: dict[str, Family] = {
    "blip": ImageFirst(),
    "blip-2": Blip(),
    "cosmos3_edge": CosmosEdge(),
    "got_ocr2": GotOcr(),
    "hunyuan_vl": Hunyuan(),
    "instructblip": Blip(),
    "janus": Janus(),
    "kosmos-2": Kosmos(),
    "mllama": Mllama(),
    "paligemma": PaliGemma(),
    "qwen2_vl": Qwen(),
    "qwen2_5_vl": Qwen(),
    "qwen3_vl": Qwen(),
    "qwen3_vl_moe": Qwen(),
    "qwen3_5": Qwen(),
    "qwen3_5_moe": Qwen(),
}
