"""Models for which tasks of lmms-eval have own prompts or decoding, and the match of a served name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from lyncean_harnesses.library import HarnessError

_BY_MODEL = ("lmms_eval_specific_kwargs", "model_specific_generation_kwargs", "model_specific_target_kwargs")
"""Settings of a task that depend on the model."""

_NO_MODELS = frozenset({"default", "dataset"})

_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "gemini_api": ("gemini",),
    "gpt4V": ("gpt4",),
    "gpt4v": ("gpt4",),
    "llava_vid": ("llavavideo", "llavanextvideo"),
    "phi3v": ("phi3vision", "phi35vision"),
    "plm": ("perceptionlm",),
    "xcomposer2_4khd": ("internlmxcomposer24khd",),
}
"""Name in lmms-eval -> beginnings of names of weights that differ from it."""


def variants(config: Mapping[str, Any]) -> list[str]:
    """Returns the models for which a task's configuration has settings of their own, sorted.

    Raises:
        HarnessError: Such settings are not a mapping by model.
    """
    for key in _BY_MODEL:
        if not isinstance(config.get(key) or {}, Mapping):
            raise HarnessError(
                f"task {config.get('task')}: {key} is {config[key]!r:.60}: give a mapping of models' names to settings"
            )
    names = {
        name
        for key in _BY_MODEL
        for name, value in (config.get(key) or {}).items()
        if name not in _NO_MODELS and isinstance(value, Mapping)
    }
    return sorted(names)


def models() -> set[str]:
    """Returns lmms-eval's names of models, which its option `--model` takes."""
    from lmms_eval.models import AVAILABLE_CHAT_TEMPLATE_MODELS, AVAILABLE_SIMPLE_MODELS, MODEL_ALIASES

    aliases = (alias for names in MODEL_ALIASES.values() for alias in names)
    return {*AVAILABLE_SIMPLE_MODELS, *AVAILABLE_CHAT_TEMPLATE_MODELS, *aliases}


def named_by(served: str, names: Collection[str]) -> str:
    """Returns the longest name of lmms-eval that begins the name of served weights; "" for none.

    Args:
        served: The weights, for example "Qwen/Qwen3-VL-8B-Instruct".
        names: Names of lmms-eval, for example "qwen3_vl".
    """
    letters = _letters(served.rstrip("/").rpartition("/")[2])
    fitting = [
        (len(begin), name)
        for name in names
        for begin in (_letters(name), *_OTHER_NAMES.get(name, ()))
        if begin and letters.startswith(begin)
    ]
    return max(fitting, default=(0, ""))[1]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
