"""Shares as users write them: 0.1 or 10%."""

from __future__ import annotations

from typing import Any


def share_of(value: Any) -> Any:
    """Converts text that ends in "%" to a number; returns other values unchanged.

    Raises:
        ValueError: The text before the sign is not a number.
    """
    return float(value.rstrip()[:-1]) / 100 if isinstance(value, str) and value.rstrip().endswith("%") else value
