"""Tools of a run in its results: their names and the counts of their calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lyncean.vocabulary.facts import AT_LIMIT, OTHER_SIZE, TOOL_CALLS, TOOL_ERRORS
from orchestrator.run_folder.notes import Note

FIELD = "tools"
"""Field of a run's identity and of its results."""
SERVERS = "servers"
"""Field of that: the servers of tools, each with its revision and its tools as the model sees them."""


def summary(identity: Mapping[str, Any], calls: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """Returns the field of the results.

    Args:
        identity: The field of the run's identity.
        calls: Calls of the model that were answered.
        counts: `tool_calls` and, among them, `tool_errors`; `at_limit` of a protocol that judges answers then.
    """
    kept = {
        name: identity[name]
        for name in ("names", "protocol", "max_calls", "max_answer_tokens", SERVERS)
        if name in identity
    }
    numbers = {name: counts.get(name, 0) for name in (TOOL_CALLS, TOOL_ERRORS)}
    return kept | {"calls": calls} | numbers | ({AT_LIMIT: counts[AT_LIMIT]} if AT_LIMIT in counts else {})


def notes(counts: Mapping[str, int]) -> list[Note]:
    """Returns the note on boxes that refer to another size than the model was shown; none without such calls."""
    other_size, calls = counts.get(OTHER_SIZE, 0), counts.get(TOOL_CALLS, 0)
    if not other_size:
        return []
    text = (
        f"{other_size:,} of {calls:,} tool calls have a box in pixels of an image that the server showed the model at "
        "another size: they may cut out another place than it meant; let the server show whole images, or take a "
        "--protocol whose boxes are shares of the image (qwen, mini-o3)"
    )
    return [Note(FIELD, text, details={OTHER_SIZE: other_size, TOOL_CALLS: calls})]


def words(results: Mapping[str, Any]) -> str:
    """Returns a line for people: "tools: zoom (deepeyes), 812 calls, 340 tool calls, 12 errors"; "" without tools."""
    tools = results.get(FIELD)
    if not tools:
        return ""
    counts = f"{tools['calls']:,} calls, {tools['tool_calls']:,} tool calls, {tools['tool_errors']:,} errors"
    if at_limit := tools.get(AT_LIMIT):
        counts += f", {at_limit:,} answers judged at the limit"
    remote = [tool["name"] for server in tools.get(SERVERS, ()) for tool in server["tools"]]
    return f"tools: {', '.join((*tools['names'], *remote))} ({tools['protocol']}), {counts}"
