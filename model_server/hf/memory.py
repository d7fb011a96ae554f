"""Memory of the device: how many tokens a batch may have."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

import torch

from model_server.hf import selfcheck
from model_server.hf.batch import prefill
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.fitting import free
from model_server.hf.prompt import Prompter

log = logging.getLogger(__name__)
_SHARE = 0.9
"""Share of the free memory that a batch may take: the rest is for fragments and for what the estimate misses."""
_WORDS = "one two three four " * 40
"""Text of the measured prompt: long enough that what a token takes stands out from what a batch takes at least."""


def token_budget(checkpoint: Checkpoint, prompter: Prompter) -> float:
    """Measures how many tokens a batch may have on the GPUs of a loaded model; infinity without a GPU.

    Args:
        checkpoint: The model.
        prompter: Builds the measured prompt.
    """
    devices = sorted({part.device for part in checkpoint.model.parameters() if part.device.type == "cuda"}, key=str)
    if not devices:
        return math.inf
    try:
        prompt = selfcheck.question(prompter, checkpoint, 1, _WORDS).prompt

        @torch.inference_mode()
        def run(rows: int) -> None:
            prefill(checkpoint, [prompt.inputs] * rows)

        limit = measured(run, len(prompt.ids), devices)
    except selfcheck.FAILURES as error:
        log.warning("the memory of a token could not be measured: %s: %s", type(error).__name__, error)
        return math.inf
    finally:
        free()
    log.info("at most %.0f tokens a batch, by the memory that is free", limit)
    return limit


def measured(run: Callable[[int], None], tokens: int, devices: Sequence[torch.device]) -> float:
    """Returns the number of tokens that fit into the free memory.

    The memory of a token is the difference between the peaks of three rows and of one, so that the fixed cost of a
    pass is not counted. It holds the pass's activations beside the cache, which a token of the output
    does not need: the result errs on the side of small batches.

    Args:
        run: Runs a prompt in so many equal rows.
        tokens: Tokens of a row.
        devices: The model's GPUs; the one that fills up first decides.
    """
    peaks: list[list[int]] = []
    run(1)  # the first pass allocates workspaces that stay
    for rows in (1, 3):
        for device in devices:
            torch.cuda.reset_peak_memory_stats(device)
        run(rows)
        peaks.append([torch.cuda.max_memory_allocated(device) for device in devices])
    free()
    limits: list[float] = []
    for device, one, three in zip(devices, *peaks, strict=True):
        per_token = max(1.0, (three - one) / (2 * tokens))
        limits.append(_SHARE * torch.cuda.mem_get_info(device)[0] / per_token)
    return min(limits)
