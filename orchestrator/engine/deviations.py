"""What a run changes in a benchmark's own requests: decoding, arguments of the chat template, grey images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from orchestrator.engine.blind import blinded
from orchestrator.samples import Call


@dataclass(frozen=True, slots=True)
class Deviations:
    """Changes made to every call that generates text with the model under evaluation.

    Attributes:
        blind: Whether images are replaced by grey ones, in every call.
        config: What replaces the benchmark's decoding; fields that are not set replace nothing.
        stages: Stages with a model of their own, whose decoding stays the benchmark's.
        seed: Seed of calls that are sampled because of `config` alone; None where the model takes no seed.
    """

    blind: bool = False
    config: model.GenerationConfig = field(default_factory=model.GenerationConfig)
    stages: frozenset[str] = frozenset()
    seed: int | None = None

    def applied(self, call: Call, key: str) -> Call:
        """Returns the call as this run makes it.

        Args:
            call: The call as the benchmark makes it.
            key: The item's key; its seed depends on it, and on nothing that another attempt would change.

        Raises:
            BadRowError: If an image's header cannot be read.
        """
        if self.blind:
            call = blinded(call)
        kept = call.continuations or call.modality == model.MODALITY_IMAGE or call.stage in self.stages
        if kept or not self.config.ListFields():
            return call
        config = model.GenerationConfig()
        config.CopyFrom(call.config)
        config.MergeFrom(self.config)
        if self.config.temperature > 0 and not config.HasField("seed") and self.seed is not None:
            digest = hashlib.sha256(f"{self.seed}|{key}|generation".encode()).digest()
            config.seed = int.from_bytes(digest[:8]) >> 1
        return replace(call, config=config)


def config_of(recorded: Mapping[str, Any]) -> model.GenerationConfig:
    """Returns the decoding that deviations, as the manifest records them, ask for."""
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
