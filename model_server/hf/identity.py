"""A hash of the preprocessing that turns media and text into a model's inputs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from model_server.hf.checkpoint import Checkpoint

_PARTS = ("image_processor", "video_processor", "feature_extractor")
_APART = {"name_or_path", "_name_or_path", "processor_class", "auto_map", "chat_template"}
"""Settings that name paths and classes, and the template, which has a hash of its own."""


def processor_hash(checkpoint: Checkpoint) -> str:
    """Returns a SHA-256, in hexadecimal, of the settings of a checkpoint's tokenizer and preprocessors.

    It does not depend on the checkpoint's path, and differs for other settings: sizes, means, patches, vocabulary,
    special tokens, and those that `--processor` changes. Versions of the library that preprocess by other defaults
    differ as well.
    """
    tokenizer, processor = checkpoint.tokenizer, checkpoint.processor
    core: Any = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = core.to_str() if hasattr(core, "to_str") else sorted(tokenizer.get_vocab().items())
    known = {
        "tokenizer": [type(tokenizer).__name__, vocabulary, dict(tokenizer.special_tokens_map)],
        "settings": dict(checkpoint.image_settings),
    }
    if checkpoint.takes_media:
        known["processor"] = type(processor).__name__
        # Of the processor itself, only the values that shape a prompt: patch sizes, numbers of tokens.
        settings = vars(processor).items()
        known["own"] = {name: value for name, value in settings if isinstance(value, str | int | float)}
        for name in _PARTS:
            part = getattr(processor, name, None)
            if part is not None:
                known[name] = [type(part).__name__, part.to_dict()]
    return hashlib.sha256(json.dumps(_plain(known), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Returns a value as JSON; the class name of a value that JSON cannot hold."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items() if name not in _APART}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str | int | float | None):
        return value
    return _plain(value.tolist()) if hasattr(value, "tolist") else type(value).__name__
