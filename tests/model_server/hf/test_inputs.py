"""Inputs that run along a prompt's tokens, told from those of its images."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from model_server.hf.batch import collate  # noqa: E402
from model_server.hf.family import Family  # noqa: E402
from model_server.hf.inputs import Prompt  # noqa: E402

IDS = {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.ones((1, 3), dtype=torch.long)}
PIXELS = torch.ones((1, 2, 4, 4), dtype=torch.long)
"""Crops of an image, and which of their pixels are real: as Phi-4 Multimodal has it."""
SEEN = torch.ones((1, 3, 2), dtype=torch.long)
"""Tokens, and the images that each sees: as IDEFICS has it."""


def test_a_mask_of_an_images_pixels_is_left_as_it_is() -> None:
    inputs = IDS | {"image_attention_mask": PIXELS}
    extended = Family().extend(inputs, 1, [8, 9, 10, 11])
    assert extended["input_ids"].tolist() == [[5, 8, 9, 10, 11]]
    assert torch.equal(extended["image_attention_mask"], PIXELS)
    batch = collate([inputs, extended], 0)
    assert batch["input_ids"].tolist() == [[0, 0, 5, 6, 7], [5, 8, 9, 10, 11]]
    assert torch.equal(batch["image_attention_mask"], torch.cat([PIXELS, PIXELS]))
    other = Prompt(IDS | {"image_attention_mask": PIXELS[:, :1]}, [5, 6, 7], "")
    assert Prompt(inputs, [5, 6, 7], "").signature != other.signature, "other crops share no batch"


def test_a_mask_of_tokens_and_images_goes_on_with_the_tokens() -> None:
    extended = Family().extend(IDS | {"image_attention_mask": SEEN}, 3, [8, 9])
    assert extended["image_attention_mask"].shape == (1, 5, 2)
