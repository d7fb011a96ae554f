"""Prompts and steps a model: the defaults, which fit LLaVA and most later models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import torch
from transformers import DynamicCache
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model


class ModelParts(Protocol):
    """Parts of a loaded checkpoint that families read (`model_server.hf.checkpoint.Checkpoint`)."""

    @property
    def model(self) -> Any:
        """The `transformers` model."""

    @property
    def processor(self) -> Any:
        """Its processor."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""


@dataclass
class Prefill:
    """State after the prefill of prompts.

    Attributes:
        last: Logits after the last prompt token: [batch, vocabulary].
        cache: The key-value cache, with the states of recurrent layers.
        mask: 1 for real prompt tokens, 0 for padding: [batch, prompt].
        next_position: Position of the next token: [batch].
        inputs: The prompts' inputs.
    """

    last: torch.Tensor
    cache: Any
    mask: torch.Tensor
    next_position: torch.Tensor
    inputs: dict[str, Any]

    def lengths(self) -> list[int]:
        """Returns the number of keys per layer: the prompt's tokens, or its images in a cross-attention layer."""
        return [layer.get_seq_length() for layer in self.cache.layers]

    def narrow(self, lengths: Sequence[int]) -> None:
        """Truncates each layer to so many keys, also after a pass that ended between two layers."""
        for layer, length in zip(self.cache.layers, lengths, strict=True):
            if layer.is_initialized:
                layer.keys, layer.values = layer.keys[..., :length, :], layer.values[..., :length, :]


def is_recurrent(model: Any) -> bool:
    """Returns True if some layers keep a recurrent state instead of keys (Mamba, gated delta nets, convolutions)."""
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in DynamicCache(config=model.config).layers)


def _new_cache(model: Any) -> DynamicCache:
    # Without a config each layer keeps all tokens; a token tree after the prompt needs them under sliding attention.
    return DynamicCache(config=model.config) if is_recurrent(model) else DynamicCache()


def _as_argument(model: Any, cache: DynamicCache) -> dict[str, DynamicCache]:
    """Returns a cache as the model's keyword argument, which models without attention name differently."""
    names = inspect.signature(model.forward).parameters
    return {"past_key_values" if "past_key_values" in names or "cache_params" not in names else "cache_params": cache}


def attention(model: Any, visible: torch.Tensor, here: torch.Tensor, before: torch.Tensor) -> Any:
    """Returns an explicit attention mask in the form that a model takes.

    The mask is additive and floating-point: the eager implementation silently misreads a bool mask. Models that
    mix full and sliding attention take one mask for each.

    Args:
        model: The model.
        visible: True where a token sees a key: [batch, tokens, keys], bool.
        here: Number of tokens before each token: [batch, tokens].
        before: Number of tokens before each key: [batch, keys], or [1, keys] if all rows share it.
    """
    text = model.config.get_text_config()
    window = getattr(text, "sliding_window", None)
    kinds = set(getattr(text, "layer_types", None) or ())
    full = _additive(visible, model.dtype)
    if not window or not getattr(text, "use_sliding_window", True):
        return full
    sliding = _additive(visible & (here[:, :, None] - before[:, None, :] < window), model.dtype)
    if kinds >= {"full_attention", "sliding_attention"}:
        return {"full_attention": full, "sliding_attention": sliding}
    return sliding if "sliding_attention" in kinds or not kinds else full


def _additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]


def _token_ids(checkpoint: ModelParts, kind: str) -> frozenset[int]:
    numbers = {getattr(checkpoint.model.config, f"{kind}_token_{end}", None) for end in ("id", "index")}
    return frozenset(number for number in numbers if isinstance(number, int))


_CLIPS: tuple[Kind, ...] = ("audio", "video")
SEQUENCES = {
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "mm_token_type_ids",
    "moe_mm_token_type_ids",
    "image_embeds_position_mask",
    "cross_attention_mask",
    "image_attention_mask",
    "image_patches_indices",
}
"""Names of inputs that run along the prompt's tokens; all others belong to its images and clips."""


def runs_along(name: str, value: Any) -> bool:
    """Returns True if an input runs along the prompt's tokens.

    The `image_attention_mask` of IDEFICS covers tokens and images; that of Phi-4 marks the real pixels of each crop.
    """
    return name in SEQUENCES and not (name == "image_attention_mask" and value.dim() > 3)


_IMAGES_SEEN = {"cross_attention_mask", "image_attention_mask"}
"""Inputs that mark the images that a token sees."""


class Family:
    """A family of models that are prompted and stepped alike.

    Attributes:
        multi_image: Whether several images in a prompt are understood.
        needs_image: Whether a prompt without an image cannot be answered.
        first_position: The position of the first token.
        prefill_positions: Whether left-padded prompts need explicit positions; else the model computes them itself.
        text_prefill_positions: Whether text-only prompts need them although others do not.
        row_positions: Whether rows after a repeated cache need them.
        text_module: The part of the model that continues text from a cache; "" means the model itself.
        text_fill: Values of inputs that run along the tokens, for generated text; 0 by default.
    """

    multi_image = True
    needs_image = False
    first_position = 0
    prefill_positions = True
    text_prefill_positions = False
    row_positions = True
    text_module = ""
    text_fill: Mapping[str, int] = MappingProxyType({"attention_mask": 1, "image_patches_indices": -1})

    def placeholders(self, checkpoint: ModelParts) -> frozenset[str]:
        """Texts by which the processor recognizes an image or a clip; a prompt's own text must not hold them."""
        numbers = self.image_token_ids(checkpoint).union(*(self.clip_token_ids(checkpoint, kind) for kind in _CLIPS))
        named = {checkpoint.tokenizer.convert_ids_to_tokens(number) for number in numbers}
        markers = {getattr(checkpoint.processor, f"{kind}_token", None) for kind in ("image", *_CLIPS)}
        return frozenset(str(token) for token in named | markers if token)

    def image_token_ids(self, checkpoint: ModelParts) -> frozenset[int]:
        """Tokens that stand for images."""
        return _token_ids(checkpoint, "image")

    def clip_token_ids(self, checkpoint: ModelParts, kind: Kind) -> frozenset[int]:
        """Tokens that stand for audio or videos, if these have their own."""
        return _token_ids(checkpoint, kind) - self.image_token_ids(checkpoint)

    def processor_kwargs(self, checkpoint: ModelParts) -> dict[str, Any]:
        """Further arguments of the processor."""
        return {}

    def nest(self, pictures: list[Any]) -> Any:
        """Returns the images of one prompt as the processor takes them for a batch of one."""
        return [pictures] if self.multi_image else pictures

    def plain(self, messages: Sequence[model.Message], checkpoint: ModelParts) -> str:
        """Returns the prompt of a checkpoint without a chat template: its images and clips, then its lines of text."""
        parts = [part for message in messages for part in message.parts]
        kinds = [part.WhichOneof("kind") for part in parts] if self.multi_image else []
        tokens = [str(getattr(checkpoint.processor, f"{kind}_token", "")) for kind in kinds if kind != "text"]
        texts = [part.text for part in parts if part.WhichOneof("kind") == "text"]
        return "".join(tokens) + "\n".join(texts)

    def extend(self, inputs: dict[str, torch.Tensor], kept: int, more: Sequence[int]) -> dict[str, torch.Tensor]:
        """Returns the inputs of the prompt's first `kept` tokens followed by `more` text tokens."""
        extended = dict(inputs)
        if kept == inputs["input_ids"].shape[1] and not more:
            return extended
        for name, value in inputs.items():
            if not runs_along(name, value):
                continue
            tail = value[:, -1:].repeat_interleave(len(more), dim=1)
            if name == "input_ids":
                tail = torch.tensor([list(more)], dtype=value.dtype)
            elif name not in _IMAGES_SEEN:  # text sees the images that the prompt's last token sees
                tail = torch.full_like(tail, self.text_fill.get(name, 0))
            extended[name] = torch.cat([value[:, :kept], tail], dim=1)
        return extended

    def reset(self, model: Any) -> None:
        """Clears state that a model wrongly keeps between calls."""

    def generate(self, model: Any, **kwargs: Any) -> None:
        """Runs the library's own decoding loop."""
        model.generate(**kwargs)

    def logits(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns the logits of one full forward pass: [batch, tokens, vocabulary]."""
        logits: torch.Tensor = model(**inputs, use_cache=False).logits
        return logits

    def prefill(self, model: Any, inputs: dict[str, Any]) -> Prefill:
        """Runs a left-padded batch of prompts once; returns its logits and cache."""
        mask = inputs["attention_mask"]
        cache = _new_cache(model)
        more: dict[str, Any] = _as_argument(model, cache)
        if self.prefill_positions:
            more["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0) + self.first_position
        elif self.text_prefill_positions and all(runs_along(name, value) for name, value in inputs.items()):
            more["position_ids"] = self.text_positions((mask.cumsum(-1) - 1).clamp(min=0))
        if "logits_to_keep" in inspect.signature(model.forward).parameters:
            more["logits_to_keep"] = 1
        out = model(**inputs, **more, use_cache=True)
        return Prefill(out.logits[:, -1], cache, mask, mask.sum(-1) + self.first_position, inputs)

    def step(
        self, model: Any, state: Prefill, ids: torch.Tensor, positions: torch.Tensor, visible: torch.Tensor
    ) -> torch.Tensor:
        """Runs text tokens after the prompts.

        Args:
            model: The model.
            state: The prompts.
            ids: [batch, tokens].
            positions: [batch, tokens].
            visible: [batch, tokens, prompt + tokens], bool: True where a token sees a key.

        Returns:
            Logits: [batch, tokens, vocabulary].
        """
        prompt = (state.mask.cumsum(-1) - 1).clamp(min=0)
        here = positions - state.next_position[:, None] + state.mask.sum(-1, keepdim=True)
        mask = attention(model, visible, here, torch.cat([prompt, here], dim=1))
        return self.forward_text(model, state.cache, ids, positions, mask, **self.step_inputs(state, ids))

    def forward_text(
        self, model: Any, cache: Any, ids: torch.Tensor, positions: torch.Tensor, mask: Any, **inputs: Any
    ) -> torch.Tensor:
        """Runs text tokens after a cache.

        Args:
            model: The model.
            cache: The keys before the tokens: of prompts, or the slots of `model_server.hf.slots`.
            ids: [rows, tokens].
            positions: [rows, tokens].
            mask: The mask, from `attention`.
            inputs: Further inputs of the model.

        Returns:
            Logits: [rows, tokens, vocabulary].
        """
        logits: torch.Tensor = self._text_part(model)(
            input_ids=ids,
            attention_mask=mask,
            position_ids=self.text_positions(positions),
            past_key_values=cache,
            use_cache=True,
            **inputs,
        ).logits
        return logits

    def step_rows(self, model: Any, cache: Any, state: Prefill, ids: torch.Tensor, done: int = 0) -> torch.Tensor:
        """Runs right-padded rows after a prompt whose cache was repeated for each.

        Padding follows the real tokens, so a causal model cannot see it.

        Args:
            model: The model.
            cache: The repeated cache.
            state: The prompt.
            ids: [rows, tokens].
            done: Tokens of the rows that the cache holds already.

        Returns:
            Logits: [rows, tokens, vocabulary].
        """
        part = self._text_part(model)
        more: dict[str, Any] = _as_argument(part, cache)
        if "past_key_values" in more:  # models without attention want the mask of these tokens alone: all are real
            seen = (ids.shape[0], state.mask.shape[1] + done + ids.shape[1])
            more["attention_mask"] = torch.ones(seen, dtype=torch.long, device=ids.device)
        if self.row_positions:
            places = state.next_position[:, None] + done + torch.arange(ids.shape[1], device=ids.device)
            more["position_ids"] = self.text_positions(places.expand(ids.shape[0], -1))
        logits: torch.Tensor = part(input_ids=ids, use_cache=True, **more).logits
        return logits

    def _text_part(self, model: Any) -> Any:
        return getattr(model, self.text_module) if self.text_module else model

    def text_positions(self, positions: torch.Tensor) -> torch.Tensor:
        """Returns positions of text, [batch, tokens], in the form that the model takes."""
        return positions

    def step_inputs(self, state: Prefill, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns further inputs of text tokens after the prompts."""
        return {}
