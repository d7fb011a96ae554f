"""Interfaces between the service, which keeps sessions, and the tools that it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lyncean.model.v1 import model_pb2


@dataclass(frozen=True, slots=True)
class Output:
    """Result of a call.

    Attributes:
        content: Texts, and encoded images as bytes, in the order in which the model is to see them; at least one.
        is_error: Whether the content is an error message for the model to read.
        facts: Metrics of the call by name.
    """

    content: tuple[str | bytes, ...]
    is_error: bool = False
    facts: Mapping[str, float] = field(default_factory=dict)


class Session(Protocol):
    """State of one conversation. Its methods run in threads, one at a time."""

    def call(self, name: str, arguments: str, images: Sequence[bytes]) -> Output:
        """Makes one call.

        A mistake of the model is an output with `is_error`. An exception fails the call and ends the session: a
        `lyncean.rpc.StatusError` with its own status, any other as INTERNAL.

        Args:
            name: Name of one of the tools.
            arguments: JSON that fits the tool's schema.
            images: Encoded images of the conversation so far: the sample's own first, then those of tool results.
        """

    def close(self) -> None:
        """Frees the session's resources; it is not called again."""


class Toolset(Protocol):
    """Tools that share their sessions."""

    @property
    def revision(self) -> str:
        """Changes whenever a result may change: code, weights, settings. Never empty."""

    @property
    def stateful(self) -> bool:
        """True if a result may depend on earlier calls, which are then replayed after the loss of a session."""

    def tools(self) -> Sequence[model_pb2.Tool]:
        """Returns the tools, at least one."""

    def open(self) -> Session:
        """Returns a new session; runs in a thread."""
