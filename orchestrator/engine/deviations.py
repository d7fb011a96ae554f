"""Changes of a run to a benchmark's own requests: decoding, form of the answer, chat template, grey images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.keys import split_repeat
from orchestrator.engine.blind import blinded
from orchestrator.samples import Answer, Call, Scoring, Turn

_SPARE_TOKENS = 8
"""Tokens beside a label at most: blank lines before it, and the token that ends the answer."""


@dataclass(frozen=True, slots=True)
class Deviations:
    """Changes made to every call that generates text with the model under evaluation.

    Attributes:
        blind: Whether images are replaced by grey ones, in every call.
        constrained: Whether an answer that a choice rule reads must be one of its labels.
        config: Replacement of the benchmark's decoding; fields that are not set replace nothing.
        stages: Stages with a model of their own, whose decoding stays the benchmark's.
        finish_cut: Most output tokens to which a cut answer is finished; 0 leaves it cut.
        seed: Seed of calls that are sampled because of `config` alone; None where the model takes no seed.
    """

    blind: bool = False
    constrained: bool = False
    config: model.GenerationConfig = field(default_factory=model.GenerationConfig)
    stages: frozenset[str] = frozenset()
    seed: int | None = None
    finish_cut: int = 0

    def first(self, turn: Turn, answers: Sequence[Answer], key: str) -> Call:
        """Returns the first call of a turn as this run makes it.

        Args:
            turn: The turn.
            answers: Those to the earlier turns.
            key: The item's key; its seed depends on it, and not on the attempt.

        Raises:
            BadRowError: If an image's header cannot be read, or as `Turn.ask` does.
            NoAnswerError: As `Turn.ask` does.
        """
        call = self.seen(turn.ask(answers))
        return self.decoded(turn.play.first(call) if turn.play else call, key, turn.scoring)

    def seen(self, call: Call) -> Call:
        """Returns a benchmark's call with the media that this run shows; raises BadRowError as `first` does."""
        return blinded(call) if self.blind else call

    def decoded(self, call: Call, key: str, scoring: Scoring | None) -> Call:
        """Returns a call with the decoding of this run.

        Args:
            call: The call.
            key: As in `first`.
            scoring: How its answer is judged, if it is.
        """
        kept = call.continuations or call.modality == model.MODALITY_IMAGE or call.stage in self.stages
        labels = choices_of(scoring) if self.constrained and scoring else ()
        if kept or not (self.config.ListFields() or labels):
            return call
        config = model.GenerationConfig()
        config.CopyFrom(call.config)
        config.MergeFrom(self.config)
        if self.config.temperature > 0 and not config.HasField("seed") and self.seed is not None:
            bare, repeat = split_repeat(key)
            digest = hashlib.sha256(f"{self.seed}|{bare}|generation".encode()).digest()
            config.seed = (int.from_bytes(digest[:8]) >> 1) + repeat  # which one request for all repeats asks for
        if labels:
            config.response_format.choices.texts.extend(labels)
            config.ClearField("stop")  # nothing follows the label
            longest = max(len(label.encode()) for label in labels) + _SPARE_TOKENS
            if config.HasField("max_output_tokens"):
                config.max_output_tokens = max(config.max_output_tokens, longest)
        return replace(call, config=config)


def choices_of(scoring: Scoring) -> tuple[str, ...]:
    """Returns the answers that a choice rule can read: labels, or two options' words; empty for other rules."""
    params, options = scoring.params, scoring.options
    labels = tuple(params.get("labels") or ())
    match scoring.rule:
        case "choice":
            return labels or tuple(ascii_uppercase[: int(params.get("count", len(options) or 4))])
        case "choice_number":
            return tuple(str(number + 1) for number in range(int(params.get("count", len(options) or 4))))
        case "two_way" | "yes_no":
            return labels or tuple(option.strip() for option in options)
    return ()


def config_of(recorded: Mapping[str, Any]) -> model.GenerationConfig:
    """Returns the decoding of a manifest's deviations."""
    config = model.GenerationConfig(**recorded.get("generation", {}))
    match recorded.get("thinking"):
        case "on" | "off" as word:
            config.thinking = word == "on"
        case int(budget):
            config.thinking_budget = budget
    if "chat_template" in recorded:
        config.chat_template_arguments.update(recorded["chat_template"])
    if "extra_body" in recorded:
        config.extra_body.update(recorded["extra_body"])
    return config
