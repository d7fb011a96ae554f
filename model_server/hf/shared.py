"""Several outputs of one prompt: prefills the prompt once and repeats its cache for each of them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from model_server.hf.family import runs_along
from model_server.hf.inputs import Prompt

_CACHES = ("past_key_values", "cache_params")
_ENCODED = "mm_encoder_outputs"
_PIXELS = ("pixel_values", "image_patches", "pixel_values_images", "pixel_values_videos")
_POSITIONS = "position_ids"
"""In models with positions in several dimensions, these stand before the rows."""


def places(prompts: Sequence[Prompt]) -> list[int]:
    """Returns for each row of a batch the index of its prompt among the distinct ones.

    Rows of one request share one object; prompts that are merely equal count as distinct.
    """
    known: dict[int, int] = {}
    return [known.setdefault(id(prompt), len(known)) for prompt in prompts]


@contextlib.contextmanager
def read_once(
    net: Any, prompts: Sequence[Prompt], inputs: Mapping[str, Any], done: Callable[[], None]
) -> Iterator[None]:
    """Makes the first pass of a model read each distinct prompt once, for any number of rows.

    The library's decoding loop makes that pass over all rows. A hook before it reduces the inputs to one row for each
    prompt; a hook after it repeats logits and cache, so that the loop continues with all rows.

    Args:
        net: The model.
        prompts: The prompt of each row.
        inputs: The inputs of the distinct prompts, collated, on the device; only their media are used.
        done: Called after that pass; never if the model is called in another way.
    """
    where = places(prompts)
    first = [where.index(number) for number in range(max(where) + 1)]
    media = {name: value for name, value in inputs.items() if not runs_along(name, value)}
    encodes = _encodes(net)
    handles: list[Any] = []

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kept = {name: _rows(name, value, first, len(where)) for name, value in kwargs.items() if name != _ENCODED}
        return args, kept | {name: value for name, value in media.items() if encodes or name in kwargs}

    def after(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        index = torch.tensor(where, device=output.logits.device)
        output.logits = output.logits.index_select(0, index)
        for name in _CACHES:
            if (cache := output.get(name)) is not None:
                cache.reorder_cache(index)
        shifts = getattr(net.base_model, "rope_deltas", None)
        if isinstance(shifts, torch.Tensor) and shifts.shape[0] == len(first):
            net.base_model.rope_deltas = shifts.index_select(0, index.to(shifts.device))
        for handle in handles:  # every later pass has all rows
            handle.remove()
        done()
        return output

    handles.append(net.register_forward_pre_hook(before, with_kwargs=True))
    handles.append(net.register_forward_hook(after, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def without_pixels(net: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of all rows for `read_once`, without pixels that the library would encode for each row."""
    if not _encodes(net):
        return inputs
    return {name: value for name, value in inputs.items() if name not in _PIXELS} | {_ENCODED: {}}


def _encodes(net: Any) -> bool:
    """Returns True if the library's decoding loop encodes images and videos before the first pass."""
    return _ENCODED in inspect.signature(net.forward).parameters


def _rows(name: str, value: Any, rows: Sequence[int], count: int) -> Any:
    """Returns an input reduced from `count` rows to some of them; other inputs are unchanged."""
    if isinstance(value, dict):
        return {key: _rows(name, inner, rows, count) for key, inner in value.items()}
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    dim = 1 if name == _POSITIONS and value.dim() == 3 else 0
    return value.index_select(dim, torch.tensor(rows, device=value.device)) if value.shape[dim] == count else value
