"""Options of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.engine.deviations import Deviations

if TYPE_CHECKING:
    from orchestrator.engine.tool_server import ToolServer


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the engine; only `changes` changes a result.

    Attributes:
        timeout: Deadline of one call, seconds.
        patience: Seconds for which a call that meets full or absent servers is sent again.
        changes: Changes to the benchmark's requests.
        shard: (index from 0, number of shards); None runs everything.
        repeats: Times that each sample is asked; its repeats follow each other.
        tools: Servers of tools, connected.
    """

    timeout: float = 600.0
    patience: float = 600.0
    changes: Deviations = field(default_factory=Deviations)
    shard: tuple[int, int] | None = None
    repeats: int = 1
    tools: Sequence[ToolServer] = ()
