"""Bounds of a server of tools: plain values, so that a command line is read without gRPC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server.

    Attributes:
        concurrency: Calls that are made at the same time.
        sessions: Sessions that are open at most.
        queue: Calls that wait at most.
    """

    concurrency: int = 8
    sessions: int = 64
    queue: int = 256
