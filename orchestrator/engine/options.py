"""How the engine runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How the engine runs; nothing here changes a result.

    Attributes:
        timeout: Deadline of one call, seconds.
        patience: Seconds for which a call that meets full or absent servers is sent again.
        blind: Whether images are replaced by grey ones.
        shard: (index from 0, number of shards); None runs everything.
    """

    timeout: float = 600.0
    patience: float = 600.0
    blind: bool = False
    shard: tuple[int, int] | None = None
