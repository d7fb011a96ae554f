"""Compares answers and scores with the library: `generate` of one request, and one full pass per candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from bench_likelihood import reform
from transformers import GenerationConfig

from gpu_parts.part import Machine, Row, loaded
from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Call
from model_server.hf.batch import to_batch
from model_server.hf.likelihood import Question

_CANDIDATES = [" yes", " no", " The answer is B, because", " The answer is C", " 7", " a red dog and two cats"]
_LIMITS = {"float32": 1e-3, "bfloat16": 0.2}
"""Largest difference of one token's log-probability, by number format."""


def measure(machine: Machine) -> list[Row]:
    """Compares both checkpoints in both number formats."""
    return [
        row
        for kind in ("llava", "hybrid")
        for dtype in ("float32", "bfloat16")
        for row in _compared(machine, machine.folder / kind, dtype)
    ]


def _compared(machine: Machine, folder: Path, dtype: str) -> list[Row]:
    sent, name, limit = machine.questions(16, 32), f"{folder.name}, {dtype}", _LIMITS[dtype]
    for request in sent:
        request.config.top_logprobs = 1
    with loaded(folder, dtype=dtype, batch_wait=0.05) as server:
        replies = server.answers(sent)
        parts = server.backend._loaded
        prompts = [parts.prompter.prepare(request.messages) for request in sent]
        same, left, worst, summed = 0, 0, 0.0, 0.0
        for prompt, request, reply in zip(prompts, sent, replies, strict=True):
            wanted = _library(parts.checkpoint, prompt, request.config.max_output_tokens)
            got = [(token.token_id, token.logprob) for token in reply.logprobs]
            same += [number for number, _ in got] == [number for number, _ in wanted][: len(got)]
            for (one, value), (other, logprobs) in zip(got, wanted, strict=False):
                if one != other:  # the rest has another beginning; a near tie is not an error
                    left += float(logprobs[other] - logprobs[one]) > limit
                    break
                worst = max(worst, abs(value - float(logprobs[other])))
        for prompt, request in zip(prompts[:4], sent, strict=False):
            joined = parts.prompter.join(prompt, _CANDIDATES)
            likelihoods = model.LikelihoodRequest(messages=request.messages, continuations=_CANDIDATES)
            scores = [score.logprob for score in server.run(server.backend.likelihood(likelihoods, Call())).scores]
            full_sums = reform(parts.checkpoint, Question(prompt, joined), 64)
            for score, total, candidate in zip(scores, full_sums, joined, strict=True):
                summed = max(summed, abs(score - total) / (len(candidate.ids) - candidate.start))
        method = parts.verdict.method
    every = f"{same} of {len(sent)}"
    return [
        Row(f"{name}: answers of a batch with the tokens of the library's", every),
        Row(f"{name}: answers that leave it at no near tie", f"{left}", not left),
        Row(f"{name}: largest difference of a token's log-probability", f"{worst:.2g}", worst <= limit),
        Row(f"{name}: the same of candidates ({method}), by token", f"{summed:.2g}", summed <= limit),
    ]


@torch.inference_mode()
def _library(checkpoint: Any, prompt: Any, tokens: int) -> list[tuple[int, torch.Tensor]]:
    """Returns the output of the library's `generate` for one prompt: tokens, each with all log-probabilities."""
    settings = GenerationConfig(
        do_sample=False,
        max_new_tokens=tokens,
        eos_token_id=sorted(checkpoint.ends) or None,
        pad_token_id=checkpoint.tokenizer.pad_token_id or 0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    inputs = to_batch(checkpoint, [prompt.inputs])
    checkpoint.family.reset(checkpoint.model)
    out = checkpoint.model.generate(**inputs, generation_config=settings)
    output = out.sequences[0, inputs["input_ids"].shape[1] :].tolist()
    logprobs = [logits[0].float().log_softmax(-1) for logits in out.logits]
    return list(zip(output, logprobs, strict=True))
