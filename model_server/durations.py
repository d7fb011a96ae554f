"""Durations of the contract."""

from __future__ import annotations

import time

from google.protobuf import duration_pb2

from lyncean.model.v1 import model_pb2 as model


def seconds(value: float) -> duration_pb2.Duration:
    """Returns a duration of so many seconds; a negative one counts as 0."""
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(max(0, round(value * 1e9)))
    return duration


def usage_since(queued: float, started: float, **tokens: int) -> model.Usage:
    """Returns the usage of a request that has just ended.

    Args:
        queued: When it entered the queue, in seconds of the monotonic clock.
        started: When the model took it, likewise.
        tokens: Token counts, by their names in `Usage`.
    """
    now = time.monotonic()
    return model.Usage(queue_time=seconds(started - queued), model_time=seconds(now - started), **tokens)
