"""Tools of a run in its results: their names, and how often the model called them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELD = "tools"
"""Field of a run's identity and of its results."""


def summary(identity: Mapping[str, Any], calls: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """Returns the field of the results.

    Args:
        identity: The field of the run's identity.
        calls: Calls of the model that were answered.
        counts: `tool_calls` and, among them, `tool_errors`.
    """
    kept = {name: identity[name] for name in ("names", "protocol", "max_calls")}
    return kept | {"calls": calls} | {name: counts.get(name, 0) for name in ("tool_calls", "tool_errors")}


def words(results: Mapping[str, Any]) -> str:
    """Returns a line for people: "tools: zoom (deepeyes), 812 calls, 340 tool calls, 12 errors"; "" without tools."""
    found = results.get(FIELD)
    if not found:
        return ""
    counts = f"{found['calls']:,} calls, {found['tool_calls']:,} tool calls, {found['tool_errors']:,} errors"
    return f"tools: {', '.join(found['names'])} ({found['protocol']}), {counts}"
