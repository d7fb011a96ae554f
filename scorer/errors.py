"""The error of a request that cannot be scored."""

from __future__ import annotations


class RequestError(Exception):
    """A request that its rule cannot score: a defect of the benchmark, INVALID_ARGUMENT.

    The message names what is missing or wrong; `reason` is its machine-readable cause.
    """

    def __init__(self, message: str, reason: str = "invalid_item") -> None:
        super().__init__(message)
        self.reason = reason
