"""What is special about each model type."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import torch

from lyncean.model.v1 import model_pb2 as model
from model_server.hf.family import Family, ModelParts, Prefill


def family_of(kind: str, net: Any) -> Family:
    """Returns the family of a model type; an unknown one whose positions have dimensions is stepped as Qwen is."""
    known = FAMILIES.get(kind)
    axes = _position_axes(net)
    if known is None and axes and hasattr(net.base_model, "rope_deltas"):
        return Qwen(axes)
    return known or Family()


def _position_axes(model: Any) -> int:
    """Returns how many positions a token has: three in Qwen2-VL, four in Hunyuan; 0 where it is one number."""
    for module in model.modules():
        if section := getattr(module, "mrope_section", None):
            return len(next(iter(section.values())) if isinstance(section, dict) else section)
    return 0


class Qwen(Family):
    """Qwen2-VL and its successors: positions in several dimensions, computed by the model from the images.

    Without images the model numbers padding as well, so it is told positions.

    Args:
        axes: How many dimensions.
    """

    prefill_positions = False
    text_prefill_positions = True

    def __init__(self, axes: int = 3) -> None:
        self._axes = axes

    def reset(self, model: Any) -> None:
        """The shift of the last image prompt would otherwise reach the next text-only one."""
        model.base_model.rope_deltas = None

    def prefill(self, model: Any, inputs: dict[str, Any]) -> Prefill:
        """Adds the shift that images cause to the position that comes next."""
        self.reset(model)
        state = super().prefill(model, inputs)
        shift = model.base_model.rope_deltas
        if shift is not None:
            state.next_position = state.next_position + shift.view(-1)
        return state

    def text_positions(self, positions: torch.Tensor) -> torch.Tensor:
        """Text has the same position in all dimensions."""
        return positions[None].expand(self._axes, -1, -1)


class Hunyuan(Qwen):
    """Hunyuan-VL: an axis of four numbers the images, and the library counts on from prompt to prompt of a batch."""

    def __init__(self) -> None:
        super().__init__(axes=4)

    def prefill(self, model: Any, inputs: dict[str, Any]) -> Prefill:
        """Gives each prompt of a batch the positions that it has alone."""
        grids, kinds = inputs.get("image_grid_thw"), inputs.get("mm_token_type_ids")
        if grids is None or kinds is None or len(kinds) == 1:
            return super().prefill(model, inputs)
        begins = (kinds == 1) & torch.nn.functional.pad(kinds[:, :-1] != 1, (1, 0), value=True)
        counts = begins.sum(-1).tolist()
        alone = [
            model.base_model.get_rope_index(
                inputs["input_ids"][row : row + 1],
                kinds[row : row + 1],
                image_grid_thw=own,
                attention_mask=inputs["attention_mask"][row : row + 1],
            )
            for row, own in enumerate(torch.split(grids, counts))
        ]
        positions = torch.cat([position for position, _ in alone], dim=1)
        state = super().prefill(model, {**inputs, "position_ids": positions})
        shifts = torch.cat([shift.view(-1) for _, shift in alone])
        state.next_position = state.mask.sum(-1) + shifts
        return state


class CosmosEdge(Qwen):
    """Cosmos 3 Edge: as Qwen, but its processor tells images from text only where it is asked to."""

    def processor_kwargs(self, checkpoint: ModelParts) -> dict[str, Any]:
        """What its positions are computed from."""
        return {"return_mm_token_type_ids": True}


class PaliGemma(Family):
    """PaliGemma: positions begin at 1, and the prompt sees itself both ways while the answer does not."""

    needs_image = True
    first_position = 1
    text_fill = MappingProxyType({"attention_mask": 1, "token_type_ids": 1})


class ImageFirst(Family):
    """Exactly one image, which the processor puts first by itself."""

    multi_image = False
    needs_image = True


class Blip(ImageFirst):
    """BLIP-2 and InstructBLIP: the outer model wants pixels each time."""

    text_module = "language_model"


class Mllama(Family):
    """Llama 3.2 Vision: images are seen through cross attention."""

    def step_inputs(self, state: Prefill, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Text sees the images that the prompt's last token sees."""
        mask = state.inputs.get("cross_attention_mask")
        return {} if mask is None else {"cross_attention_mask": mask[:, -1:].expand(-1, ids.shape[1], -1, -1)}


class Kosmos(ImageFirst):
    """Kosmos-2: explicit positions and masks mislead it; the outer model wants the image each time."""

    prefill_positions = False
    row_positions = False
    text_module = "text_model"

    def image_token_ids(self, checkpoint: ModelParts) -> frozenset[int]:
        """The numbers behind the unknown token, one per place of the image."""
        first = checkpoint.tokenizer.unk_token_id + 1
        return frozenset(range(first, first + checkpoint.model.config.latent_query_num))

    def placeholders(self, checkpoint: ModelParts) -> frozenset[str]:
        """What marks an image in text."""
        return frozenset({"<image>", "</image>"})

    def processor_kwargs(self, checkpoint: ModelParts) -> dict[str, Any]:
        """How many tokens an image takes is the model's to say."""
        return {"num_image_tokens": checkpoint.model.config.latent_query_num}


class GotOcr(Family):
    """GOT-OCR2: reads pages, which stand in no list of their own; its checkpoints have no chat template."""

    needs_image = True

    def nest(self, pictures: list[Any]) -> Any:
        """Images of one prompt, as the processor wants them."""
        return pictures

    def plain(self, messages: Sequence[model.Message], checkpoint: ModelParts) -> str:
        """The conversation that its processor writes around its own questions."""
        parts = [part for message in messages for part in message.parts]
        processor = checkpoint.processor
        start, end = processor.message_start_token, processor.message_end_token
        pages = processor.image_token * sum(part.HasField("image") for part in parts)
        asked = "\n".join(part.text for part in parts if part.WhichOneof("kind") == "text")
        shown = f"{processor.img_start_token}{pages}{processor.img_end_token}\n{asked}"
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
