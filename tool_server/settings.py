"""Bounds of a server of tools: plain values, so that a command line is read without gRPC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server.

    Attributes:
        concurrency: Maximum concurrent calls.
        sessions: Maximum open sessions.
        queue: Maximum waiting calls.
    """

    concurrency: int = 8
    sessions: int = 64
    queue: int = 256
