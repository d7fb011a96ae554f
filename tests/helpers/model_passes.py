"""Counts the passes that a model computes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest


def count_forwards(backend: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the model's forward passes: tokens of each, padding included."""
    forward, sizes = backend._loaded.checkpoint.model.forward, []

    def counted(*args: Any, **kwargs: Any) -> Any:
        sizes.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    counted.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(backend._loaded.checkpoint.model, "forward", counted)
    return sizes
