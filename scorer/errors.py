"""The error of a request that cannot be scored."""

from __future__ import annotations

from collections.abc import Iterable

_ELSEWHERE = {"include": "folders with tasks are those of the scorer's own --include-path"}
"""Parameters that belong to the scorer and not to a request -> the place where they are set."""


class RequestError(Exception):
    """A request that its rule cannot score: a defect of the benchmark, INVALID_ARGUMENT.

    The message names what is missing or wrong; `reason` is its machine-readable cause.
    """

    def __init__(self, message: str, reason: str = "invalid_item") -> None:
        super().__init__(message)
        self.reason = reason


def unknown_param(who: str, name: str, known: Iterable[str]) -> RequestError:
    """Returns the error of an unknown parameter of a rule or metric."""
    message = f"{who} has no parameter {name!r}; known: {', '.join(known) or 'none'}"
    return RequestError("; ".join(filter(None, (message, _ELSEWHERE.get(name)))), "unknown_param")
