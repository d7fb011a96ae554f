"""What is special about each model type. The defaults fit LLaVA and most that came after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lynceus.model.v1 import model_pb2 as model
from model_server.hf.checkpoint import Checkpoint


class Family:
    """One way to prompt and to step a model.

    Attributes:
        multi_image: Whether several images in a prompt are understood.
    """

    multi_image = True

    def image_token_ids(self, checkpoint: Checkpoint) -> frozenset[int]:
        """Tokens that stand for images."""
        config = checkpoint.model.config
        found = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")}
        return frozenset(number for number in found if isinstance(number, int))

    def processor_kwargs(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """Further arguments of the processor."""
        return {}

    def nest(self, pictures: list[Any]) -> Any:
        """Images of one prompt, as the processor wants them for a batch of one."""
        return [pictures]

    def clean(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Drops or mends what the processor made."""
        return inputs

    def plain(self, messages: Sequence[model.Message], checkpoint: Checkpoint) -> str:
        """The prompt of a checkpoint without a chat template: its images, then its texts, line by line."""
        token = getattr(checkpoint.processor, "image_token", "")
        count = sum(p.WhichOneof("kind") == "image" for m in messages for p in m.parts)
        texts = [p.text for m in messages for p in m.parts if p.WhichOneof("kind") == "text"]
        return str(token) * count + "\n".join(texts)

    def extend(self, inputs: dict[str, torch.Tensor], kept: int, more: Sequence[int]) -> dict[str, torch.Tensor]:
        """The inputs of the prompt's first `kept` tokens followed by `more` text tokens."""
        made = dict(inputs)
        for name, value in inputs.items():
            if name == "input_ids":
                tail = torch.tensor([list(more)], dtype=value.dtype)
            elif name == "attention_mask":
                tail = torch.ones((1, len(more)), dtype=value.dtype)
            elif name in ("token_type_ids", "mm_token_type_ids"):
                tail = torch.full((1, len(more)), self.text_type, dtype=value.dtype)
            else:
                continue
            made[name] = torch.cat([value[:, :kept], tail], dim=1)
        return made

    text_type = 0
    """The token type of generated text."""

    def generate_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the library's `generate`."""
        return inputs

    def logits(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits of one whole forward pass: [batch, tokens, vocabulary]."""
        logits: torch.Tensor = model(**inputs, use_cache=False).logits
        return logits


def family_of(kind: str) -> Family:
    """Returns the family of a config's `model_type`."""
    return FAMILIES.get(kind, Family())


FAMILIES: dict[str, Family] = {}
