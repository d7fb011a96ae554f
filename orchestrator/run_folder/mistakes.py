"""Rejections that a mistake of configuration explains: they are never final, since it may be mended."""

from __future__ import annotations

from orchestrator.run_folder.lines import Failure

OF_SETTINGS = frozenset({"outside_data", "no_system_messages", "too_many_images", "image_too_large"})
"""Reasons of rejections on this side that no other attempt changes: of the data's folder, and of what servers state."""
_LACKING = frozenset({"UNIMPLEMENTED", "NOT_FOUND", "FAILED_PRECONDITION"})
"""Statuses of a server that lacks a requested route, model or capability."""


def of_configuration(error: Failure) -> bool:
    """Returns whether a rejection is due to the command, the data's location or the server."""
    return error.code in _LACKING or error.reason in OF_SETTINGS or error.reason == "endpoint_refused"
