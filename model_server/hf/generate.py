"""Generate: one batch of conversations through the library's own decoding loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from lyncean.rpc import InternalFailure
from model_server.hf.batch import to_batch
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.families import Family
from model_server.hf.prompt import Prompt
from model_server.hf.sampling import RowSampler, RowStop, SamplingRow


def end_tokens(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that end an output: the checkpoint's generation settings, else its config, else its tokenizer."""
    model = checkpoint.model
    for source in (getattr(model, "generation_config", None), model.config, checkpoint.tokenizer):
        tokens = getattr(source, "eos_token_id", None)
        if tokens is not None:
            return frozenset([tokens] if isinstance(tokens, int) else tokens)
    return frozenset()


@torch.inference_mode()
def generate(
    checkpoint: Checkpoint,
    family: Family,
    prompts: Sequence[Prompt],
    rows: Sequence[SamplingRow],
    ends: frozenset[int],
    extra: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> None:
    """Runs a batch; each row is told when it has ended.

    Nothing of the checkpoint's own sampling defaults applies (penalties, suppressed tokens,
    temperature): what decides is the request, so that greedy decoding is the plain maximum.

    Args:
        checkpoint: The model.
        family: Behaviour of its model type.
        prompts: Prompts of one signature.
        rows: The requests, in the prompts' order.
        ends: Tokens that end an output.
        extra: Replaces the prompts' image inputs, where vision features are kept.
    """
    model = checkpoint.model
    inputs: dict[str, Any] = to_batch(checkpoint, [p.inputs for p in prompts])
    if extra is not None:
        inputs = extra(inputs)
    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=max(row.config.max_output_tokens for row in rows),
        eos_token_id=sorted(ends) or None,
        pad_token_id=checkpoint.tokenizer.pad_token_id or 0,
        bos_token_id=checkpoint.tokenizer.bos_token_id,
        decoder_start_token_id=getattr(model.generation_config, "decoder_start_token_id", None),
        use_cache=True,
    )
    family.reset(model)
    sampler = RowSampler(rows, checkpoint.tokenizer)
    family.generate(
        model,
        **inputs,
        generation_config=settings,
        logits_processor=LogitsProcessorList([sampler]),
        stopping_criteria=StoppingCriteriaList([RowStop(rows, checkpoint.tokenizer, ends)]),
    )
    if not sampler.used:
        raise InternalFailure("sampler_ignored", f"{type(model).__name__} decodes without asking how")
