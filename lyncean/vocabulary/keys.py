"""What an item's key says of repeats, as whoever makes keys writes it and all who read them take it."""

from __future__ import annotations

import re

_REPEAT = re.compile(r"#(\d{1,9})(?=(?::[^:]*)?$)")


def split_repeat(key: str) -> tuple[str, int]:
    """Returns the key of a sample or an item without its repeat, and which repeat it is, from 0.

    What a key says of repeats stands at its end or before the turn.
    """
    found = _REPEAT.search(key) if "#" in key else None
    return (key[: found.start()] + key[found.end() :], int(found[1])) if found else (key, 0)
