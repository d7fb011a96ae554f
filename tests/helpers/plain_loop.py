"""The judge of the matrix of model types: `transformers` alone, in float32, one request and one full pass at a time.

Nothing of `model_server` runs here. A prompt is rendered and processed by the checkpoint's own processor; each token
of an output, and each continuation, is a forward pass over everything, without a cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf
from PIL import Image

_KINDS = {str: "text", Image.Image: "image", np.ndarray: "audio", tuple: "video"}
_TEXT_TOKENS = {"token_type_ids": {"paligemma": 1}, "image_patches_indices": {"fuyu": -1}}
"""Values of inputs that run along the tokens, for generated tokens, by model type; 0 by default."""
_FIRST = {"blip", "blip-2", "git", "instructblip", "kosmos-2"}
"""Types whose processor, or the model itself, puts the image before the text."""
_READS_TWICE = {"instructblip"}
"""Types that read the prompt's text elsewhere too, where a continuation does not belong."""
_FURTHER = {"cosmos3_edge": {"return_mm_token_type_ids": True}, "kosmos-2": {"num_image_tokens": 4}}
"""Arguments without which a type's processor leaves out what its model needs."""


@dataclass(frozen=True)
class Token:
    """A token of an output or a continuation, and its natural log-probability."""

    id: int
    logprob: float


class PlainLoop:
    """A checkpoint, judged by the library alone.

    Args:
        folder: The checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.processor = tf.AutoProcessor.from_pretrained(folder)
        config = tf.AutoConfig.from_pretrained(folder)
        config = getattr(config, "thinker_config", config)
        auto = tf.AutoModelForMultimodalLM
        self._net = auto.from_pretrained(folder, config=config, dtype=torch.float32).eval()
        self._kind = config.model_type
        self._template = self.processor.chat_template or self.processor.tokenizer.chat_template
        self._writes = config.is_encoder_decoder

    def inputs(self, parts: Sequence[Any], answer: str = "") -> dict[str, torch.Tensor]:
        """Returns the processor's output for texts, images, samples and frames, with an answer after the prompt."""
        content = []
        for part in parts:
            kind = next(name for cls, name in _KINDS.items() if isinstance(part, cls))
            content.append({"type": kind} | ({"text": part} if kind == "text" else {}))
        if self._template:
            chat = [{"role": "user", "content": content}]
            rendered = self.processor.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True, chat_template=self._template
            )
        else:
            token = "" if self._kind in _FIRST else str(getattr(self.processor, "image_token", ""))
            rendered = "".join(token for entry in content if entry["type"] == "image")
            rendered += "\n".join(part for part in parts if isinstance(part, str))
        return self._processed(rendered + answer, parts)

    def _processed(self, text: str, parts: Sequence[Any]) -> dict[str, torch.Tensor]:
        media: dict[str, Any] = dict(_FURTHER.get(self._kind, {}))
        if self._template:
            media["add_special_tokens"] = False
        images = [part for part in parts if isinstance(part, Image.Image)]
        if heard := [part for part in parts if isinstance(part, np.ndarray)]:
            media |= {"audio": heard, "audio_kwargs": {"sampling_rate": 16000}}
        if seen := [part for part in parts if isinstance(part, tuple)]:
            media["videos"] = [frames for frames, _ in seen]
            media["videos_kwargs"] = {"do_sample_frames": False, "video_metadata": [facts for _, facts in seen]}
        failure: Exception | None = None
        for nested in ([images], images):
            if images:
                media["images"] = nested
            try:
                encoded = self.processor(text=[text], return_tensors="pt", **media)
                return {name: value for name, value in encoded.items() if isinstance(value, torch.Tensor)}
            except (ValueError, TypeError, IndexError, AttributeError) as error:
                failure = failure or error
        raise failure or AssertionError

    def greedy(self, parts: Sequence[Any], tokens: int) -> list[Token]:
        """Continues a prompt by the most probable tokens."""
        inputs, generated = self.inputs(parts), list[Token]()
        for _ in range(tokens):
            logprobs = self._logits(inputs, [token.id for token in generated])[-1].log_softmax(-1)
            best = int(logprobs.argmax())
            generated.append(Token(best, float(logprobs[best])))
            if best == self.processor.tokenizer.eos_token_id:
                break
        return generated

    def scores(self, parts: Sequence[Any], continuation: str) -> list[Token]:
        """Scores a continuation by its tokens after the prompt's, both tokenized together."""
        prompt = self.inputs(parts)
        before = prompt["input_ids"][0].tolist()
        inputs = self.inputs(parts, continuation)
        ids = inputs["input_ids"][0].tolist()
        more: list[int] = []
        # Some processors end each prompt with a token of their own.
        if ids[: len(before)] != before or self._kind in _READS_TWICE:
            more = self.processor.tokenizer(continuation, add_special_tokens=False)["input_ids"]
            inputs, ids = prompt, before + more
        logprobs = self._logits(inputs, more)[:-1].log_softmax(-1)
        return [Token(ids[index], float(logprobs[index - 1, ids[index]])) for index in range(len(before), len(ids))]

    @torch.inference_mode()
    def _logits(self, inputs: Mapping[str, torch.Tensor], generated: Sequence[int]) -> torch.Tensor:
        """Returns logits of one full pass: [tokens, vocabulary]."""
        whole = dict(inputs)
        if self._writes:
            first = self._net.config.decoder_start_token_id
            whole["decoder_input_ids"] = torch.tensor([[first, *generated]])
        elif generated:
            length = inputs["input_ids"].shape[1]
            for name, value in inputs.items():
                if value.dim() < 2 or value.shape[1] != length or name in ("pixel_values", "image_sizes"):
                    continue
                fill = _TEXT_TOKENS.get(name, {}).get(self._kind, 0)
                more = torch.full((1, len(generated), *value.shape[2:]), fill, dtype=value.dtype)
                if name == "input_ids":
                    more = torch.tensor([list(generated)])
                elif name == "attention_mask":
                    more = torch.ones_like(more)
                elif name == "cross_attention_mask":
                    more = value[:, -1:].expand(-1, len(generated), *value.shape[2:])
                whole[name] = torch.cat([value, more], dim=1)
        base = self._net.base_model
        if hasattr(base, "rope_deltas"):
            base.rope_deltas = None
        return self._net(**whole, use_cache=False).logits[0].float()
