"""Shares as people write them: 0.1 or 10%."""

from __future__ import annotations

from typing import Any


def share_of(value: Any) -> Any:
    """Returns a share in percent as a number; whatever is no text that ends in "%" as it is.

    Raises:
        ValueError: What stands before the sign is not a number.
    """
    return float(value.rstrip()[:-1]) / 100 if isinstance(value, str) and value.rstrip().endswith("%") else value
