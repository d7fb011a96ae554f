"""Likelihood, the plain way: one forward pass per continuation. Every faster way is held to this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from model_server.hf.batch import to_device
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.families import Family
from model_server.hf.prompt import Joined, Prompt


@dataclass(frozen=True)
class Scored:
    """One continuation's tokens.

    Attributes:
        ids: The tokens that the continuation owns.
        logprobs: Natural log-probability of each, in float32.
        is_greedy: Whether each was the most probable.
    """

    ids: list[int]
    logprobs: list[float]
    is_greedy: bool

    @property
    def logprob(self) -> float:
        """The sum."""
        return sum(self.logprobs)


def scored(logits: torch.Tensor, owned: Sequence[int]) -> Scored:
    """Reads the owned tokens' log-probabilities from the logits of the places before them.

    Args:
        logits: [owned tokens, vocabulary], any float format.
        owned: The tokens.
    """
    logprobs = logits.float().log_softmax(-1)
    index = torch.tensor(list(owned), device=logits.device)
    values = logprobs.gather(1, index[:, None])[:, 0]
    return Scored(list(owned), values.tolist(), bool((logprobs.argmax(-1) == index).all()))


@torch.inference_mode()
def plain(checkpoint: Checkpoint, family: Family, prompt: Prompt, joined: Sequence[Joined]) -> list[Scored]:
    """Scores each continuation in a forward pass of its own."""
    return [_one(checkpoint, family, prompt, each) for each in joined]


def _one(checkpoint: Checkpoint, family: Family, prompt: Prompt, joined: Joined) -> Scored:
    kept = common(prompt.ids, joined.ids[:-1])
    inputs = family.extend(prompt.inputs, kept, joined.ids[kept:-1])
    family.reset(checkpoint.model)
    logits = family.logits(checkpoint.model, to_device(inputs, checkpoint.device, checkpoint.model.dtype))
    return scored(logits[0, joined.start - 1 :], joined.ids[joined.start :])


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns how many leading tokens two sequences share."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))
