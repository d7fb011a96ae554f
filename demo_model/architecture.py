"""The demo model's architecture: a small InternVL of the transformers library, its tokenizer and its processor.

A vision transformer, four patches folded into one token, a projector and a language model. Every
image of any shape is one square of 64 tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import lyncean.transformers_import  # noqa: F401  (before transformers: makes torchvision importable)

tf: Any = transformers
SIDE, PATCH, FOLD = 256, 16, 2
GRID = SIDE // PATCH // FOLD
IMAGE_TOKENS = GRID * GRID
VOCABULARY = 1536
COMMON = 0.15
"""Share of the examples from which on a sentence that occurs in them becomes a single token."""
PAD, END, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"
IMAGE_START, IMAGE_END, IMAGE, VIDEO = "<img>", "</img>", "<IMG_CONTEXT>", "<video>"
SPECIAL = (PAD, END, USER, ASSISTANT, IMAGE_START, IMAGE_END, IMAGE, VIDEO)
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + ('assistant' if message.role == 'assistant' else 'user') + '|>' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<IMG_CONTEXT>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WIDTH = 192
VISION: dict[str, Any] = {
    "hidden_size": 192,
    "intermediate_size": 576,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "image_size": [SIDE, SIDE],
    "patch_size": [PATCH, PATCH],
    "attention_bias": True,
    "layer_scale_init_value": 1.0,
}
TEXT: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32_768,
    "tie_word_embeddings": True,
}


def make_tokenizer(rows: Sequence[dict[str, Any]]) -> Any:
    """Returns a byte-level BPE trained on the examples' texts; it can encode any text."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = Counter(text for row in rows for question in row["questions"] for text in question.values())
    inner.train_from_iterator(sorted(texts), trainer)
    inner.add_tokens([AddedToken(sentence, normalized=False) for sentence in _common(rows)])
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        extra_special_tokens={
            "start_image_token": IMAGE_START,
            "end_image_token": IMAGE_END,
            "context_image_token": IMAGE,
            "video_token": VIDEO,
        },
    )


def _common(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the sentences of instructions that occur in a share `COMMON` of the examples."""
    seen = Counter(
        sentence
        for row in rows
        for sentence in {
            part for question in row["questions"] for part in re.split(r"(?<=[.?!]) |\n", question["question"].strip())
        }
    )
    return sorted(one for one, count in seen.items() if count >= COMMON * len(rows) and len(one) > 16)


def make_processor(tokenizer: Any) -> Any:
    """Returns the processor: one square per image of any shape."""
    size = {"height": SIDE, "width": SIDE}
    half = [0.5, 0.5, 0.5]
    return tf.InternVLProcessor(
        tf.GotOcr2ImageProcessor(
            size=size, crop_to_patches=False, min_patches=1, max_patches=1, image_mean=half, image_std=half
        ),
        tokenizer,
        tf.InternVLVideoProcessor(size=size, image_mean=half, image_std=half),
        image_seq_length=IMAGE_TOKENS,
        chat_template=TEMPLATE,
    )


def make_model(tokenizer: Any) -> Any:
    """Returns the model with random weights."""
    end, pad = (tokenizer.convert_tokens_to_ids(token) for token in (END, PAD))
    config = tf.InternVLConfig(
        vision_config=VISION,
        text_config=TEXT | {"eos_token_id": end, "pad_token_id": pad, "bos_token_id": None},
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        image_seq_length=IMAGE_TOKENS,
        downsample_ratio=1 / FOLD,
        vision_feature_layer=-1,
        eos_token_id=end,
        pad_token_id=pad,
    )
    # With this little to a head, plain products beat fused attention on a processor.
    model = tf.InternVLForConditionalGeneration._from_config(config, attn_implementation="eager")
    model.generation_config = tf.GenerationConfig(eos_token_id=end, pad_token_id=pad)
    return model


def make_frame(names: int) -> torch.Tensor:
    """Returns what an image token is made of: [names + 2 * GRID, WIDTH], a row each, of length 1.

    First the names of things, then the columns and the lines of an image. The rows are as unlike as
    that many can be in so many dimensions (a tight frame).
    """
    frame = torch.empty(names + 2 * GRID, WIDTH)
    torch.nn.init.orthogonal_(frame, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(frame, dim=-1)
