"""Rows of a batch of Generate: each has its own sampler, format, limits and stop strings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure
from model_server.backend import Call
from model_server.hf.reasoning import Reasoning, decode
from model_server.hf.sampling import sample
from model_server.hf.tokens import token_bytes

if TYPE_CHECKING:
    from model_server.hf.constraint import Constraint


@dataclass
class SamplingRow:
    """One request of a batch.

    Attributes:
        config: Its decoding, every field set.
        call: The request's lifetime.
        done: Called once with the row when it has ended.
        ids: Output tokens, without the one that ended the sequence.
        finish: The reason why it ended.
        text: The answer, cut at a stop string.
        logprobs: Log-probabilities per token, if requested.
        reasoning: Tells reasoning from the answer; None if the model has no marks for it.
        constraint: Holds the answer to its format; None without one.
        banned: A token that the output may not have.
        thoughts: The reasoning's text.
        failure: The row's own failure; None if it has an answer.
    """

    config: model.GenerationConfig
    call: Call
    done: Callable[[SamplingRow], None]
    reasoning: Reasoning | None = None
    constraint: Constraint | None = None
    banned: int | None = None
    ids: list[int] = field(default_factory=list)
    finish: model.FinishReason.ValueType = model.FINISH_REASON_UNSPECIFIED
    text: str = ""
    thoughts: str = ""
    logprobs: list[model.TokenLogprob] = field(default_factory=list)
    over: bool = False
    failure: InternalFailure | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        """Seeds the row's own sampler, so that other rows of the batch do not affect its draws."""
        if self.config.temperature > 0:
            self.generator = torch.Generator().manual_seed(self.config.seed & (2**63 - 1))

    def end(self) -> None:
        """Ends the row."""
        self.over = True
        self.done(self)

    def fail(self, failure: InternalFailure) -> None:
        """Ends the row without an answer; the other rows continue."""
        self.failure = failure
        self.end()

    @property
    def constrained(self) -> bool:
        """True if the next token belongs to an answer with a format."""
        return self.constraint is not None and not self.over and not (self.reasoning and self.reasoning.inside)

    def allowed(self, size: int) -> torch.Tensor | None:
        """Returns the mask of tokens that may come next: [size], bool, on the CPU; None if all may."""
        if self.constraint is None or self.over:
            return None
        if not self.constrained:
            return self.constraint.before(size)
        allowed = self.constraint.allowed(size)
        if self.reasoning and self.reasoning.opening is not None:
            allowed[self.reasoning.opening] = True
        return allowed


class RowDecoder:
    """Chooses each row's next token by that row's own configuration, and ends rows one by one.

    Rows of different temperatures, seeds, formats and limits share a batch; a row's draws depend on its own seed alone.

    Args:
        tokenizer: The model's tokenizer.
        ends: Tokens that end an output.
    """

    def __init__(self, tokenizer: Any, ends: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._ends = ends

    def choose(self, rows: Sequence[SamplingRow], scores: torch.Tensor) -> list[int]:
        """Returns a token for each row; for an ended row, the most probable one.

        Args:
            rows: The rows. A row with overflowing logits, or whose format allows no token, fails alone.
            scores: [rows, vocabulary], float32.
        """
        largest = scores.amax(-1).tolist()
        for row, value in zip(rows, largest, strict=True):
            if not row.over and not math.isfinite(value):
                message = "the model's numbers overflow, so it says nothing: give --dtype bfloat16 or float32"
                row.fail(InternalFailure("not_finite", message))
        masked = self._masked(rows, scores)
        best = masked.argmax(-1).tolist()
        drawn = self._draw(rows, masked)
        for index, row in enumerate(rows):
            if row.over:
                continue
            chosen = drawn.get(index, best[index])
            if row.reasoning and row.config.HasField("thinking_budget"):
                closing = row.reasoning.closing(row.config.thinking_budget)
                chosen = chosen if closing is None else closing
            if row.config.top_logprobs:
                row.logprobs.append(self._logprob(scores[index], chosen, row.config.top_logprobs))
            best[index] = chosen
        return list(best)

    def _masked(self, rows: Sequence[SamplingRow], scores: torch.Tensor) -> torch.Tensor:
        """Returns the scores with tokens that a row's format or request rules out at minus infinity."""
        masked = scores
        for index, row in enumerate(rows):
            try:
                allowed = row.allowed(scores.shape[-1])
            except InternalFailure as error:
                row.fail(error)
                continue
            if allowed is None and row.banned is None:
                continue
            masked = scores.clone() if masked is scores else masked
            if allowed is not None:
                masked[index].masked_fill_(~allowed.to(scores.device), float("-inf"))
            if row.banned is not None:
                masked[index, row.banned] = float("-inf")
        return masked

    def _draw(self, rows: Sequence[SamplingRow], scores: torch.Tensor) -> dict[int, int]:
        """Returns the tokens of the rows that sample, by their index."""
        drawn = {index: row for index, row in enumerate(rows) if row.generator is not None and not row.over}
        if not drawn:
            return {}
        configs = [row.config for row in drawn.values()]
        generators = [row.generator for row in drawn.values() if row.generator is not None]
        return dict(zip(drawn, sample(scores[list(drawn)], configs, generators), strict=True))

    def _logprob(self, logits: torch.Tensor, chosen: int, count: int) -> model.TokenLogprob:
        logprobs = logits.float().log_softmax(-1)
        token = model.TokenLogprob(
            token=token_bytes(self._tokenizer, chosen), logprob=float(logprobs[chosen]), token_id=chosen
        )
        top = logprobs.topk(min(count, logprobs.shape[0]))
        for number, value in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            token.top.add(token=token_bytes(self._tokenizer, number), logprob=value, token_id=number)
        return token

    def advance(self, row: SamplingRow, last: int) -> None:
        """Appends a row's next token; ends the row at an end token, its limit, a stop string or its deadline."""
        if row.call.over:
            row.end()
        elif last in self._ends:
            self._finish(row, model.FINISH_REASON_END_OF_SEQUENCE)
        else:
            constrained = row.constrained
            row.ids.append(last)
            if row.reasoning:
                row.reasoning.feed(row.ids)
            if row.constraint and constrained and row.constrained:  # else the token opened the reasoning
                try:
                    row.constraint.feed(last)
                except InternalFailure as error:
                    row.fail(error)
                    return
            if row.constraint and row.constraint.complete:
                self._finish(row, model.FINISH_REASON_END_OF_SEQUENCE)
            elif self._stopped(row):
                self._finish(row, model.FINISH_REASON_STOP_STRING)
            elif len(row.ids) >= row.config.max_output_tokens:
                self._finish(row, model.FINISH_REASON_MAX_TOKENS)

    def _stopped(self, row: SamplingRow) -> bool:
        if not row.config.stop or (row.reasoning and row.reasoning.inside):
            return False
        # A token may be part of a character, so the window counts bytes, plus a margin.
        window = max(len(stop.encode()) for stop in row.config.stop) + 8
        answer = row.reasoning.answer if row.reasoning else 0
        recent = decode(self._tokenizer, row.ids[max(answer, len(row.ids) - window) :])
        if 0 < answer >= len(row.ids) - window:
            recent = recent.lstrip()  # blank lines after the reasoning do not belong to the answer
        return any(stop in recent for stop in row.config.stop)

    def _finish(self, row: SamplingRow, reason: model.FinishReason.ValueType) -> None:
        row.finish = reason
        del row.logprobs[len(row.ids) :]
        if row.reasoning:
            row.thoughts, row.text = row.reasoning.split(row.ids)
        else:
            row.text = decode(self._tokenizer, row.ids)
        if row.constraint:
            row.text = row.constraint.text
        if reason == model.FINISH_REASON_STOP_STRING:
            positions = [row.text.find(stop) for stop in row.config.stop]
            row.text = row.text[: min(position for position in positions if position >= 0)]
        row.end()
