"""Numeric facts of an item besides its score: their names, and the classes for slices."""

from __future__ import annotations

import math

CALLS, TOOL_CALLS, TOOL_ERRORS = "calls", "tool_calls", "tool_errors"
"""Requests to the model, its tool calls, and those that returned an error."""
AT_LIMIT = "at_limit"
"""1 if a trajectory's last answer is judged because it met a limit, 0 if not; of protocols that judge it then."""
OUTPUT_TOKENS, REASONING_TOKENS = "output_tokens", "reasoning_tokens"
"""Tokens of all calls together."""
IOU = "iou"
"""Largest intersection over union of a crop with the target's box; 0 without a crop."""
SEARCH_LENGTH = "search_length"
"""Index, from 1, of the first crop that contains the center of the target's box; number of crops + 1 if none does. In a
visual search: patches examined until the target was found, over the targets found."""
TARGETS, TARGETS_FOUND, FOUND = "targets", "targets_found", "found"
"""Boxes that a visual search looks for in a row, boxes that it found, and their share."""
OTHER_SIZE = "other_size"
"""Fact of a tool call: 1 if its box is in pixels of an image that the model was shown at another size."""

FILTERED = (CALLS, TOOL_ERRORS)
"""Facts by which a report filters its samples."""

_SINGLE = 10
"""Smaller whole numbers have a class each."""


def fact_class(value: float) -> str:
    """Returns the class of a fact: "3", "8-15" between powers of two, or "0.4-0.5" for fractions."""
    if not math.isfinite(value):
        return "unknown"
    if value != int(value) and 0 < value < 1:
        tenth = math.floor(value * 10)
        return f"{tenth / 10:.1f}-{(tenth + 1) / 10:.1f}"
    if 0 <= value < _SINGLE and value == int(value):
        return str(int(value))
    if value < 0:
        return "below 0"
    low = 2 ** math.floor(math.log2(value))
    return f"{max(low, _SINGLE) if value >= _SINGLE else low}-{2 * low - 1}"
