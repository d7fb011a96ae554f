"""Sampling: temperature, top-k and nucleus, all rows of a batch together on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lyncean.model.v1 import model_pb2 as model

_NUCLEUS_WIDTH = 1024
"""Tokens that the first search for a nucleus sorts."""


def sample(
    logits: torch.Tensor, configs: Sequence[model.GenerationConfig], generators: Sequence[torch.Generator]
) -> list[int]:
    """Draws one token for each row: temperature, then top-k, then the nucleus, always at least one token.

    A row's uniform number comes from its own generator and is looked up in the cumulative sum of its weights, in the
    vocabulary's order. Sums run along a row alone, so that the rows beside it do not change its rounding.

    Args:
        logits: [rows, vocabulary], finite maxima.
        configs: The decoding of each row; temperatures above 0.
        generators: Each row's own generator, on the CPU.
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
    last = torch.searchsorted(
        sums, sums[:, -1:].contiguous()
    )  # the last token with weight, in case the product rounds up
    chosen: list[int] = torch.minimum(places, last)[:, 0].tolist()
    return chosen


def _nucleus(config: model.GenerationConfig) -> float:
    return config.top_p if config.HasField("top_p") else 1.0


def _cut(scaled: torch.Tensor, weights: torch.Tensor, configs: Sequence[model.GenerationConfig]) -> torch.Tensor:
    """Returns the weights with those outside the top k and the nucleus at 0; of equal ones the first win."""
    size = scaled.shape[-1]
    limits = torch.tensor([min(config.top_k or size, size) for config in configs], device=scaled.device)[:, None]
    nucleus = torch.tensor([_nucleus(config) for config in configs], dtype=torch.float64, device=scaled.device)[:, None]
    width = max([min(config.top_k, size) for config in configs])
    if not all(config.top_k for config in configs):
        width = max(width, min(size, _NUCLEUS_WIDTH))
    full_sum = weights.cumsum(-1)[:, -1:]
    while True:  # most nuclei are small: sorting the vocabulary would dominate the cost of a draw
        values = scaled.topk(width).values
        places = torch.arange(width, device=scaled.device)
        sums = (values.exp() * (places < limits)).cumsum(-1)
        total = torch.where(limits < size, sums[:, -1:], full_sum)
        before = torch.cat([torch.zeros_like(total), sums[:, :-1]], dim=-1)
        counts = ((before < nucleus * total) & (places < limits)).sum(-1, keepdim=True).clamp(min=1)
        if width == size or bool(((counts < width) | (limits <= width)).all()):
            break
        width = size
    threshold = values.gather(-1, counts - 1)
    above, equal = scaled > threshold, scaled == threshold
    spare = counts - above.sum(-1, keepdim=True)
    return weights * (above | (equal & (equal.cumsum(-1) <= spare)))
