"""The line of a call that was made, put together from what was rendered before and after it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from orchestrator.engine.dispatch import Result
from orchestrator.engine.episode import Built, Ended
from orchestrator.run_folder.records import StoreImage, response_json


def asked_line(built: Built, result: Result, ended: Ended | None, code: str, store: StoreImage) -> bytes:
    """Returns the line of `responses.jsonl` for a call and what became of it.

    Args:
        built: The call.
        result: Its answer or failure.
        ended: The outcome, where there is no answer to score.
        code: The gRPC status that goes with `ended`.
        store: Where the answer's images go.
    """
    rest: dict[str, Any] = {}
    if result.response is not None:
        rest["response"] = response_json(result.response, store)
    if ended:
        rest["error"] = {"code": code, "reason": ended.reason, "message": ended.detail}
    rest["replica"] = result.replica
    rest["attempts"] = result.job.attempts
    rest["seconds"] = round(result.seconds, 6)
    rest["started"] = _stamp(result.started)
    return b"".join(
        (
            b'{"key":' + orjson.dumps(built.key),
            b',"outcome":"%b"' % ended.outcome.encode() if ended else b"",
            b"," + built.head + b",",
            orjson.dumps(rest)[1:-1],
            b"," + built.tail + b"}",
        )
    )


def _stamp(seconds: float) -> str:
    """Returns a time as RFC 3339 has it, in UTC, to the millisecond."""
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
