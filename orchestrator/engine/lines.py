"""The line of a request that was sent, completed by what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from orchestrator.engine.dispatch import Result
from orchestrator.engine.episode import PreparedRequest, UnsentOutcome
from orchestrator.run_folder.lines import Failure, encode, raw
from orchestrator.run_folder.records import StoreImage, response_json


def response_line(
    prepared: PreparedRequest, result: Result, ended: UnsentOutcome | None, code: str, store: StoreImage
) -> bytes:
    """Returns the line of `responses.jsonl` for a request and what became of it.

    Args:
        prepared: The request.
        result: Its response or failure.
        ended: The outcome, where there is no answer to score.
        code: The gRPC status that goes with `ended`.
        store: Stores the answer's images.
    """
    line = prepared.line
    if result.response is not None:
        line.response = raw(response_json(result.response, store))
    if ended:
        line.outcome = ended.outcome
        line.error = Failure(code, ended.reason, ended.detail)
    line.replica = result.replica
    line.attempts = result.job.attempts
    line.seconds = round(result.seconds, 6)
    line.started = _stamp(result.started)
    return encode(line)


def _stamp(seconds: float) -> str:
    """Returns a time as RFC 3339 has it, in UTC, to the millisecond."""
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
