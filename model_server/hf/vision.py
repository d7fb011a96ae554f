"""A cache of vision features, by image: benchmarks ask several questions of one image."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from lyncean.lru import LruCache
from model_server.hf.batch import collate, to_batch
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.family import runs_along
from model_server.hf.inputs import Prompt
from model_server.metrics import Metrics

_PIXELS = ("pixel_values", "image_patches")
_FIELDS = ("pooler_output", "deepstack_features")


class _Features(dict[str, Any]):
    """Cached features with the attributes of an encoder's output."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


class VisionCache:
    """Encodes a prompt's images, or returns their cached features.

    The key is the SHA-256 of all of the prompt's images, in order: a processor's output for an image may depend on
    the number of images.

    Args:
        checkpoint: The model.
        limit: Bytes of features to cache; 0 caches none.
        metrics: The server's counters.
    """

    def __init__(self, checkpoint: Checkpoint, limit: int, metrics: Metrics) -> None:
        self._checkpoint = checkpoint
        self._metrics = metrics
        self._kept = LruCache[tuple[Any, ...], dict[str, Any]](limit)
        self._encode = getattr(checkpoint.model.base_model, "get_image_features", None)
        forward = inspect.signature(checkpoint.model.forward).parameters
        optional = all(forward[name].default is None for name in _PIXELS if name in forward)
        self.usable = bool(limit and self._encode and "mm_encoder_outputs" in forward and optional)

    def apply(self, prompts: Sequence[Prompt], inputs: dict[str, Any]) -> dict[str, Any]:
        """Replaces pixels by features.

        Args:
            prompts: The prompts of the batch.
            inputs: Their inputs, collated, on the device.
        """
        pixels = [name for name in _PIXELS if name in inputs]
        if not self.usable or not pixels or not all(prompt.image_keys for prompt in prompts):
            return inputs
        features = self._features(prompts)
        changed = {name: value for name, value in inputs.items() if name not in pixels}
        output = _Features({name: _merge(name, [encoded[name] for encoded in features]) for name in features[0]})
        changed["mm_encoder_outputs"] = {"image": output}
        return changed

    def _features(self, prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
        keys = [(prompt.image_keys, prompt.signature) for prompt in prompts]
        features = {key: kept for key in keys if (kept := self._kept.get(key)) is not None}
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in features}
        for key, prompt in zip(keys, prompts, strict=True):
            result = "miss" if key in missing else "hit"
            self._metrics.image_cache.labels(result).inc(len(prompt.image_keys))
        for key, value in zip(missing, self._encode_all(list(missing.values())), strict=True):
            features[key] = value
            self._kept.put(key, value, _size(value))
        return [features[key] for key in keys]

    def _encode_all(self, prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
        counts = [len(prompt.image_keys) for prompt in prompts]
        if len(prompts) > 1:
            together = self._run(collate([_images(p) for p in prompts], 0))
            pooled = together["pooler_output"]
            if set(together) == {"pooler_output"} and len(pooled) == sum(counts):
                split, first = [], 0
                for count in counts:
                    split.append({"pooler_output": pooled[first : first + count]})
                    first += count
                return split
        return [self._run(_images(prompt)) for prompt in prompts]

    def _run(self, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
        assert self._encode is not None
        takes = inspect.signature(self._encode).parameters
        moved = to_batch(self._checkpoint, [{n: v for n, v in inputs.items() if n in takes}])
        output = self._encode(**moved, return_dict=True)
        return {name: output[name] for name in _FIELDS if output.get(name) is not None}


def _images(prompt: Prompt) -> dict[str, torch.Tensor]:
    return {name: value for name, value in prompt.inputs.items() if not runs_along(name, value)}


def _merge(name: str, values: Sequence[Any]) -> Any:
    if name == "deepstack_features":  # per layer, then per image
        return [_merge("", layer) for layer in zip(*values, strict=True)]
    if isinstance(values[0], torch.Tensor):
        return values[0] if len(values) == 1 else torch.cat(list(values))
    return [item for value in values for item in value]


def _size(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        value = list(value.values())
    return sum(_size(item) for item in value)
