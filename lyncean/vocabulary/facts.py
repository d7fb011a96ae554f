"""Numbers known of an item beside its score: their names, and the classes by which items are sliced."""

from __future__ import annotations

import math

CALLS, TOOL_CALLS, TOOL_ERRORS = "calls", "tool_calls", "tool_errors"
"""Requests to the model, calls of tools by it, and those whose result was an error."""
OUTPUT_TOKENS, REASONING_TOKENS = "output_tokens", "reasoning_tokens"
"""Tokens of all calls together."""
IOU = "iou"
"""Largest intersection over union of a crop with the target's box; 0 where nothing was cut out."""
SEARCH_LENGTH = "search_length"
"""Number of the first crop that holds the middle of the target's box; one more than there are where none does. Of a
visual search: patches that were looked at until the target was found, of those that were."""
TARGETS, TARGETS_FOUND, FOUND = "targets", "targets_found", "found"
"""Boxes of a row that a visual search looks for, those of them that it found, and their share."""
OTHER_SIZE = "other_size"
"""Fact of a tool call: 1 where its box is in pixels, and the model was shown that image at another size."""

FILTERED = (CALLS, TOOL_ERRORS)
"""Facts by which a report filters its samples."""

_SINGLE = 10
"""Whole numbers below have a class of their own."""


def fact_class(value: float) -> str:
    """Returns the class of a fact: "3", "8-15" between powers of two, or "0.4-0.5" for what is not whole."""
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
