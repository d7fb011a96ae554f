"""Generate: one batch through the library's decoding loop; each row has its own sampler, limits and stop strings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.convert_slow_tokenizer import bytes_to_unicode

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure
from model_server.backend import Call
from model_server.hf.batch import to_batch
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.families import Family
from model_server.hf.prompt import Prompt
from model_server.hf.reasoning import Reasoning, decode

if TYPE_CHECKING:
    from model_server.hf.constraint import Constraint

_NUCLEUS_WIDTH = 1024
"""Tokens among which a nucleus is looked for first."""


@dataclass
class SamplingRow:
    """One request of a batch.

    Attributes:
        config: How to decode, every field set.
        call: The request's life.
        done: Told once, when the row has ended, with the row.
        ids: Output tokens, without the one that ended the sequence.
        finish: Why it ended.
        text: The answer, cut at a stop string.
        logprobs: Per token, where asked for.
        reasoning: Tells reasoning from the answer; None where the model has no marks for it.
        constraint: Holds the answer to its format; None where it has none.
        thoughts: The reasoning's text.
    """

    config: model.GenerationConfig
    call: Call
    done: Callable[[SamplingRow], None]
    reasoning: Reasoning | None = None
    constraint: Constraint | None = None
    ids: list[int] = field(default_factory=list)
    finish: model.FinishReason.ValueType = model.FINISH_REASON_UNSPECIFIED
    text: str = ""
    thoughts: str = ""
    logprobs: list[model.TokenLogprob] = field(default_factory=list)
    over: bool = False
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        """Seeds the row's own sampler: what is decoded beside it cannot reach it."""
        if self.config.temperature > 0:
            self.generator = torch.Generator().manual_seed(self.config.seed & (2**63 - 1))

    @property
    def constrained(self) -> bool:
        """Whether the next token belongs to an answer that has a format."""
        return self.constraint is not None and not self.over and not (self.reasoning and self.reasoning.inside)

    def allowed(self, size: int) -> torch.Tensor | None:
        """Returns which tokens may come next: [size], bool, on the CPU; None where all may."""
        if self.constraint is None or self.over:
            return None
        if not self.constrained:
            return self.constraint.before(size)
        allowed = self.constraint.allowed(size)
        if self.reasoning and self.reasoning.opening is not None:
            allowed[self.reasoning.opening] = True
        return allowed


class RowSampler(LogitsProcessor):
    """Chooses each row's token by that row's own configuration and leaves it alone in the scores.

    The library then takes the maximum, so rows of different temperatures, seeds and limits
    share a batch, and a row's draws depend on its own seed alone.
    """

    def __init__(self, rows: Sequence[SamplingRow], tokenizer: Any) -> None:
        self._rows = rows
        self._tokenizer = tokenizer
        self.used = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores: [rows, vocabulary], float32, before any change."""
        self.used = True
        largest, greedy = scores.amax(-1).tolist(), scores.argmax(-1).tolist()
        masked = self._masked(scores)
        best = greedy if masked is scores else masked.argmax(-1).tolist()
        drawn = self._draw(masked, largest)
        for index, row in enumerate(self._rows):
            if row.over:
                continue
            if not math.isfinite(largest[index]):
                raise InternalFailure(
                    "not_finite", "the model's numbers overflow, so it says nothing: give --dtype bfloat16 or float32"
                )
            logits = scores[index]
            chosen = drawn.get(index, best[index])
            if row.reasoning and row.config.HasField("thinking_budget"):
                closing = row.reasoning.closing(row.config.thinking_budget)
                chosen = chosen if closing is None else closing
            if row.config.top_logprobs:
                row.logprobs.append(self._logprob(logits, chosen, row.config.top_logprobs))
            if chosen != greedy[index] or row.generator is not None:
                scores[index] = float("-inf")
                scores[index, chosen] = 0.0
        return scores

    def _masked(self, scores: torch.Tensor) -> torch.Tensor:
        """Returns the scores with tokens that a row's format rules out at minus infinity."""
        masked = scores
        for index, row in enumerate(self._rows):
            allowed = row.allowed(scores.shape[-1])
            if allowed is not None:
                masked = scores.clone() if masked is scores else masked
                masked[index].masked_fill_(~allowed.to(scores.device), float("-inf"))
        return masked

    def _draw(self, scores: torch.Tensor, largest: Sequence[float]) -> dict[int, int]:
        """Returns the tokens of the rows that sample, by their index."""
        rows = {
            index: row.generator
            for index, row in enumerate(self._rows)
            if row.generator is not None and not row.over and math.isfinite(largest[index])
        }
        if not rows:
            return {}
        configs = [self._rows[index].config for index in rows]
        return dict(zip(rows, sample(scores[list(rows)], configs, list(rows.values())), strict=True))

    def _logprob(self, logits: torch.Tensor, chosen: int, count: int) -> model.TokenLogprob:
        logprobs = logits.float().log_softmax(-1)
        token = model.TokenLogprob(
            token=token_bytes(self._tokenizer, chosen), logprob=float(logprobs[chosen]), token_id=chosen
        )
        top = logprobs.topk(min(count, logprobs.shape[0]))
        for number, value in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            token.top.add(token=token_bytes(self._tokenizer, number), logprob=value, token_id=number)
        return token


def sample(
    logits: torch.Tensor, configs: Sequence[model.GenerationConfig], generators: Sequence[torch.Generator]
) -> list[int]:
    """Draws one token for each row: temperature, then top-k, then the nucleus, always at least one token.

    A row's uniform number comes from its own generator and is looked up in the cumulative sum of its weights, in the
    vocabulary's order. Sums run along a row alone, so that the rows beside it do not change its rounding.

    Args:
        logits: [rows, vocabulary], finite maxima.
        configs: How each row is decoded; temperatures above 0.
        generators: Each row's own, on the CPU.
    """

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64, device=logits.device)[:, None]

    scaled = logits.detach().double()
    scaled = (scaled - scaled.amax(-1, keepdim=True)) / column([config.temperature for config in configs])
    weights = scaled.exp()
    rows = [index for index, config in enumerate(configs) if config.top_k or _nucleus(config) < 1]
    if rows:
        weights[rows] = _cut(scaled[rows], weights[rows], [configs[index] for index in rows])
    sums = weights.cumsum(-1)
    uniform = [float(torch.rand((), generator=generator, dtype=torch.float64)) for generator in generators]
    places = torch.searchsorted(sums, column(uniform) * sums[:, -1:], right=True)
    last = torch.searchsorted(sums, sums[:, -1:].contiguous())  # the last of any weight, should the product round up
    chosen: list[int] = torch.minimum(places, last)[:, 0].tolist()
    return chosen


def _nucleus(config: model.GenerationConfig) -> float:
    return config.top_p if config.HasField("top_p") else 1.0


def _cut(scaled: torch.Tensor, weights: torch.Tensor, configs: Sequence[model.GenerationConfig]) -> torch.Tensor:
    """Returns the weights with those outside the top k and the nucleus at 0; of equal ones the first count."""
    size = scaled.shape[-1]
    limits = torch.tensor([min(config.top_k or size, size) for config in configs], device=scaled.device)[:, None]
    nucleus = torch.tensor([_nucleus(config) for config in configs], dtype=torch.float64, device=scaled.device)[:, None]
    width = max([min(config.top_k, size) for config in configs])
    if not all(config.top_k for config in configs):
        width = max(width, min(size, _NUCLEUS_WIDTH))
    whole = weights.cumsum(-1)[:, -1:]
    while True:  # most nuclei are small: sorting the vocabulary for them would cost the most of a draw
        values = scaled.topk(width).values
        places = torch.arange(width, device=scaled.device)
        sums = (values.exp() * (places < limits)).cumsum(-1)
        total = torch.where(limits < size, sums[:, -1:], whole)
        before = torch.cat([torch.zeros_like(total), sums[:, :-1]], dim=-1)
        counts = ((before < nucleus * total) & (places < limits)).sum(-1, keepdim=True).clamp(min=1)
        if width == size or bool(((counts < width) | (limits <= width)).all()):
            break
        width = size
    threshold = values.gather(-1, counts - 1)
    above, equal = scaled > threshold, scaled == threshold
    spare = counts - above.sum(-1, keepdim=True)
    return weights * (above | (equal & (equal.cumsum(-1) <= spare)))


class RowStop(StoppingCriteria):
    """Ends each row for its own reason, and says so at once: a row need not wait for its neighbours."""

    def __init__(self, rows: Sequence[SamplingRow], tokenizer: Any, ends: frozenset[int]) -> None:
        self._rows = rows
        self._tokenizer = tokenizer
        self._ends = ends

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Returns which rows have ended: [rows], bool."""
        for row, last in zip(self._rows, input_ids[:, -1].tolist(), strict=True):
            if not row.over:
                self._step(row, last)
        return torch.tensor([row.over for row in self._rows], device=input_ids.device)

    def _step(self, row: SamplingRow, last: int) -> None:
        if row.call.over:
            row.over = True
        elif last in self._ends:
            self._finish(row, model.FINISH_REASON_END_OF_SEQUENCE)
        else:
            constrained = row.constrained
            row.ids.append(last)
            if row.reasoning:
                row.reasoning.feed(row.ids)
            if row.constraint and constrained and row.constrained:  # else it opened the reasoning
                row.constraint.feed(last)
            if row.constraint and row.constraint.complete:
                self._finish(row, model.FINISH_REASON_END_OF_SEQUENCE)
            elif self._stopped(row):
                self._finish(row, model.FINISH_REASON_STOP_STRING)
            elif len(row.ids) >= row.config.max_output_tokens:
                self._finish(row, model.FINISH_REASON_MAX_TOKENS)
                return
        if row.over:
            row.done(row)

    def _stopped(self, row: SamplingRow) -> bool:
        if not row.config.stop or (row.reasoning and row.reasoning.inside):
            return False
        # A token may be less than a character, so the window counts bytes, and some to spare.
        window = max(len(stop.encode()) for stop in row.config.stop) + 8
        answer = row.reasoning.answer if row.reasoning else 0
        recent = decode(self._tokenizer, row.ids[max(answer, len(row.ids) - window) :])
        if 0 < answer >= len(row.ids) - window:
            recent = recent.lstrip()  # blank lines behind the reasoning are no part of the answer
        return any(stop in recent for stop in row.config.stop)

    def _finish(self, row: SamplingRow, reason: model.FinishReason.ValueType) -> None:
        row.over = True
        row.finish = reason
        del row.logprobs[len(row.ids) :]
        if row.reasoning:
            row.thoughts, row.text = row.reasoning.split(row.ids)
        else:
            row.text = decode(self._tokenizer, row.ids)
        if row.constraint:
            row.text = row.constraint.text
        if reason == model.FINISH_REASON_STOP_STRING:
            places = [row.text.find(stop) for stop in row.config.stop]
            row.text = row.text[: min(place for place in places if place >= 0)]
        if reason == model.FINISH_REASON_MAX_TOKENS:
            row.done(row)


def end_tokens(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that end an output: the checkpoint's generation settings, else its config, else its tokenizer."""
    net = checkpoint.model
    for source in (getattr(net, "generation_config", None), net.config, checkpoint.tokenizer):
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
    net = checkpoint.model
    inputs: dict[str, Any] = to_batch(checkpoint, [p.inputs for p in prompts])
    if extra is not None:
        inputs = extra(inputs)
    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=max(row.config.max_output_tokens for row in rows),
        eos_token_id=sorted(ends) or None,
        pad_token_id=checkpoint.tokenizer.pad_token_id or 0,
        bos_token_id=checkpoint.tokenizer.bos_token_id,
        decoder_start_token_id=getattr(net.generation_config, "decoder_start_token_id", None),
        use_cache=True,
    )
    family.reset(net)
    sampler = RowSampler(rows, checkpoint.tokenizer)
    family.generate(
        net,
        **inputs,
        generation_config=settings,
        logits_processor=LogitsProcessorList([sampler]),
        stopping_criteria=StoppingCriteriaList([RowStop(rows, checkpoint.tokenizer, ends)]),
    )
    if not sampler.used:
        raise InternalFailure("sampler_ignored", f"{type(net).__name__} decodes without asking how")


def token_bytes(tokenizer: Any, number: int) -> bytes:
    """Returns a token's own bytes, which need not be valid UTF-8 by themselves."""
    piece = tokenizer.convert_ids_to_tokens(number)
    return _bytes(piece, added=number in tokenizer.added_tokens_decoder, byte_level=_byte_level(tokenizer))


def vocabulary(tokenizer: Any) -> list[bytes]:
    """Returns the bytes of all tokens, in the order of their numbers; a number without a token has none."""
    size, added = max(tokenizer.get_vocab().values()) + 1, set(tokenizer.added_tokens_decoder)
    pieces, byte_level = tokenizer.convert_ids_to_tokens(list(range(size))), _byte_level(tokenizer)
    return [_bytes(piece, added=number in added, byte_level=byte_level) for number, piece in enumerate(pieces)]


def _bytes(piece: str | None, *, added: bool, byte_level: bool) -> bytes:
    if piece is None or added:
        return (piece or "").encode()
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    if byte_level and all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.replace("▁", " ").encode()


def _byte_level(tokenizer: Any) -> bool:
    known: bool | None = getattr(tokenizer, "_lyncean_byte_level", None)
    if known is None:
        core = getattr(tokenizer, "backend_tokenizer", None)
        known = core is not None and "ByteLevel" in repr(core.decoder)
        tokenizer._lyncean_byte_level = known
    return known


_BYTES = {character: byte for byte, character in bytes_to_unicode().items()}  # type: ignore[no-untyped-call]
"""The byte-level alphabet of GPT-2."""
