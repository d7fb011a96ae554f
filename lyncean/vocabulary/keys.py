"""Repeat numbers in the keys of items: the one place that parses them."""

from __future__ import annotations

import re

_REPEAT = re.compile(r"#(\d{1,9})(?=(?::[^:]*)?$)")


def split_repeat(key: str) -> tuple[str, int]:
    """Splits the key of a sample or item into the key without its repeat, and the number of the repeat, from 0.

    The repeat is at the end of the key or before the turn.
    """
    match = _REPEAT.search(key) if "#" in key else None
    return (key[: match.start()] + key[match.end() :], int(match[1])) if match else (key, 0)
