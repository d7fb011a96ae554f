"""Generate by the library's decoding loop: a batch runs until its last row has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from lyncean.rpc import InternalFailure
from model_server.hf.batch import Features, to_batch
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.inputs import Prompt
from model_server.hf.rows import RowDecoder, SamplingRow
from model_server.hf.shared import places, read_once, without_pixels


class RowSampler(LogitsProcessor):
    """Leaves each row's chosen token alone in the scores; the library then takes the maximum."""

    def __init__(self, rows: Sequence[SamplingRow], decoder: RowDecoder) -> None:
        self._rows = rows
        self._decoder = decoder
        self.used = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores: [rows, vocabulary], float32, before any change."""
        self.used = True
        chosen = torch.tensor(self._decoder.choose(self._rows, scores), device=scores.device)
        alone: Any = torch.full_like(scores, float("-inf")).scatter_(1, chosen[:, None], 0.0)
        return alone  # type: ignore[no-any-return]


class RowStop(StoppingCriteria):
    """Ends each row for its own reason, and says so at once: a row need not wait for its neighbours."""

    def __init__(self, rows: Sequence[SamplingRow], decoder: RowDecoder) -> None:
        self._rows = rows
        self._decoder = decoder

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Returns which rows have ended: [rows], bool."""
        for row, last in zip(self._rows, input_ids[:, -1].tolist(), strict=True):
            if not row.over:
                self._decoder.advance(row, last)
        return torch.tensor([row.over for row in self._rows], device=input_ids.device)


@torch.inference_mode()
def generate(
    checkpoint: Checkpoint,
    prompts: Sequence[Prompt],
    rows: Sequence[SamplingRow],
    features: Features = lambda prompts: None,
) -> None:
    """Runs a batch; each row is told when it has ended.

    Nothing of the checkpoint's own sampling defaults applies (penalties, suppressed tokens,
    temperature): only the request decides, so that greedy decoding is the plain argmax.

    Args:
        checkpoint: The model.
        prompts: Prompts of one signature; a repeated prompt is prefilled once.
        rows: The requests, in the prompts' order.
        features: Returns the replacement of some prompts' image inputs, if vision features are cached.
    """
    net = checkpoint.model

    def collated(some: Sequence[Prompt]) -> dict[str, Any]:
        inputs: dict[str, Any] = to_batch(checkpoint, [prompt.inputs for prompt in some])
        replace = features(some)
        return inputs if replace is None else replace(inputs)

    def read() -> None:
        for index, row in enumerate(rows):
            if where.index(where[index]) < index:
                row.call.cached_tokens = len(prompts[index].ids)

    inputs, where = collated(prompts), places(prompts)
    reading: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if max(where) + 1 < len(prompts):
        different = collated([prompts[where.index(number)] for number in range(max(where) + 1)])
        reading, inputs = read_once(net, prompts, different, read), without_pixels(net, inputs)
    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=max(row.config.max_output_tokens for row in rows),
        eos_token_id=sorted(checkpoint.ends) or None,
        pad_token_id=checkpoint.tokenizer.pad_token_id or 0,
        bos_token_id=checkpoint.tokenizer.bos_token_id,
        decoder_start_token_id=getattr(net.generation_config, "decoder_start_token_id", None),
        use_cache=True,
    )
    checkpoint.family.reset(net)
    decoder = RowDecoder(checkpoint.tokenizer, checkpoint.ends)
    sampler = RowSampler(rows, decoder)
    with reading:
        checkpoint.family.generate(
            net,
            **inputs,
            generation_config=settings,
            logits_processor=LogitsProcessorList([sampler]),
            stopping_criteria=StoppingCriteriaList([RowStop(rows, decoder)]),
        )
    if not sampler.used:
        raise InternalFailure("sampler_ignored", f"{type(net).__name__} decodes without asking how")
