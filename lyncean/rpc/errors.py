"""Failures on the wire: exceptions to status codes, status codes to consequences.

A servicer raises a `StatusError`, which the interceptor in `lyncean.rpc.serve`, and nothing
else, turns into a status with google.rpc.ErrorInfo. A caller receives a `CallError`; the table
`CONSEQUENCES` alone decides how it reacts.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.tool_results import OTHER_REVISION, REPLAY_DIFFERS

log = logging.getLogger(__name__)

ERROR_DOMAIN = "lyncean"
_DETAILS_KEY = "grpc-status-details-bin"
_MESSAGE_BYTES = 1500
_FACT_BYTES = 60
_FACTS = 8
NOT_HELD = "media_not_held"
"""Reason of a refusal of files sent by hash only."""
_NAMED_FILES = 32
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
LONGEST_PAUSE = 300.0
"""Longest pause in seconds that a server may ask for."""


class StatusError(Exception):
    """A failure that a servicer reports. Becomes `code` with ErrorInfo.

    Long texts are cut: peers refuse trailers of more than 8 KiB, which contain the message twice, and mistake such a
    refusal for a full queue.

    Args:
        reason: Stable, machine-readable cause in lower snake case.
        message: One sentence for people: what, where, the limit and the value, what to do.
        retry_after: Seconds until the request may be sent here again, for RetryInfo; None if unknown.
        metadata: Further facts for ErrorInfo.metadata, never secrets.
    """

    code: ClassVar[grpc.StatusCode]

    def __init__(self, reason: str, message: str, *, retry_after: float | None = None, **metadata: str) -> None:
        super().__init__(_cut(message, _MESSAGE_BYTES))
        self.reason = _cut(reason, _FACT_BYTES)
        self.retry_after = None if retry_after is None else min(max(0.0, retry_after), LONGEST_PAUSE)
        facts = itertools.islice(metadata.items(), _FACTS)
        self.metadata = {name: _cut(value, _FACT_BYTES) for name, value in facts}


class InvalidRequest(StatusError):
    """No server can answer this request; the sender must not retry it."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class OutOfRange(StatusError):
    """The prompt exceeds the context; the sender must not retry it."""

    code = grpc.StatusCode.OUT_OF_RANGE


class Unsupported(StatusError):
    """Outside this server's capabilities; the sender must not retry it."""

    code = grpc.StatusCode.UNIMPLEMENTED


class NotHeld(StatusError):
    """Files sent by hash only are not held here; the sender sends them at once with their bytes.

    Args:
        digests: The SHA-256 of each, as bytes; the first of them are named.
    """

    code = grpc.StatusCode.NOT_FOUND

    def __init__(self, digests: Sequence[bytes]) -> None:
        super().__init__(NOT_HELD, f"{len(digests)} files are not held here: send their bytes")
        self.metadata = {"sha256": ",".join(digest.hex() for digest in digests[:_NAMED_FILES])}


class OtherState(StatusError):
    """The server's state is not the one that the request was made for; no such request can succeed."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(StatusError):
    """The state that the request continues cannot be restored."""

    code = grpc.StatusCode.ABORTED


class Denied(StatusError):
    """Refused by policy; the sender must not retry it."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Unauthenticated(StatusError):
    """The credential is missing or wrong: the run stops."""

    code = grpc.StatusCode.UNAUTHENTICATED


class Overloaded(StatusError):
    """The queue is full: the sender tries again later, elsewhere first."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(StatusError):
    """Not ready, draining, or a dependency is gone: the sender tries again, elsewhere first."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(StatusError):
    """Took too long: the sender tries once more."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class InternalFailure(StatusError):
    """This server failed: the sender tries once more."""

    code = grpc.StatusCode.INTERNAL


@dataclass(frozen=True, slots=True)
class Consequence:
    """Reaction of a caller to a status.

    Attributes:
        retries: Number of retries of the same request; None retries with backoff until the
            caller's patience ends.
        outcome: Outcome of the sample after the last try.
        abort: Whether the run stops, since every other call would fail the same way.
    """

    retries: int | None
    outcome: Outcome
    abort: bool = False


SETTING_REFUSED = "setting_refused"
"""Reason of INVALID_ARGUMENT for a setting that the model does not take: every other call fails the same way."""
_ONCE = Consequence(retries=1, outcome=Outcome.FAILED)
_NEVER = Consequence(retries=0, outcome=Outcome.REJECTED)
_BACKOFF = Consequence(retries=None, outcome=Outcome.FAILED)
_ABORT = Consequence(retries=0, outcome=Outcome.FAILED, abort=True)
_REASONS: Mapping[str, Consequence] = {SETTING_REFUSED: _ABORT, OTHER_REVISION: _ABORT, REPLAY_DIFFERS: _ONCE}
"""Reasons whose consequence differs from that of their status."""
_FOREIGN = Consequence(retries=2, outcome=Outcome.FAILED)
"""Consequence of a status that only the model may set, when something in between did."""

CONSEQUENCES: Mapping[grpc.StatusCode, Consequence] = {
    grpc.StatusCode.INVALID_ARGUMENT: _NEVER,
    grpc.StatusCode.OUT_OF_RANGE: _NEVER,
    grpc.StatusCode.UNIMPLEMENTED: _NEVER,
    grpc.StatusCode.FAILED_PRECONDITION: _NEVER,
    grpc.StatusCode.NOT_FOUND: _NEVER,
    grpc.StatusCode.ALREADY_EXISTS: _NEVER,
    grpc.StatusCode.PERMISSION_DENIED: Consequence(retries=0, outcome=Outcome.REFUSED),
    grpc.StatusCode.UNAUTHENTICATED: _ABORT,
    grpc.StatusCode.RESOURCE_EXHAUSTED: _BACKOFF,
    grpc.StatusCode.UNAVAILABLE: _BACKOFF,
    grpc.StatusCode.ABORTED: _BACKOFF,
    grpc.StatusCode.DEADLINE_EXCEEDED: _ONCE,
    grpc.StatusCode.INTERNAL: _ONCE,
    grpc.StatusCode.UNKNOWN: _ONCE,
    grpc.StatusCode.DATA_LOSS: _ONCE,
    grpc.StatusCode.CANCELLED: _ONCE,
}
"""Consequence of every status of a call."""


# The status means a full queue, the text does not; texts of C-core, Java and .NET.
_TOO_LARGE = re.compile(r"larger than max|message exceeds (the )?max", re.IGNORECASE)
_LONG_TRAILERS = "metadata size exceeds"


_MODELS_OWN = frozenset(
    {
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
"""Final if the model sets it. A proxy without a route sets the same status, without our ErrorInfo."""


class CallError(Exception):
    """A call that ended with a status other than OK.

    Attributes:
        code: The status.
        reason: ErrorInfo.reason, or else the name of the status in lower case.
        metadata: ErrorInfo.metadata.
        retry_after: Seconds to pause before the next request to that server, from RetryInfo; at most LONGEST_PAUSE.
        foreign: Whether the status would end an item but lacks the contract's ErrorInfo, so that a
            proxy in between may have set it.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        retry_after: float = 0.0,
    ) -> None:
        self.foreign = not reason and code in _MODELS_OWN
        super().__init__(f"{message} (without ErrorInfo: not the model's word)" if self.foreign else message)
        self.code = code
        self.reason = reason or code.name.lower()
        self.metadata = dict(metadata or {})
        self.retry_after = min(max(0.0, retry_after), LONGEST_PAUSE)

    @property
    def consequence(self) -> Consequence:
        """Reaction to this status."""
        return _REASONS.get(self.reason) or (_FOREIGN if self.foreign else CONSEQUENCES[self.code])

    @classmethod
    def from_rpc(cls, error: grpc.aio.AioRpcError) -> CallError:
        """Reads the status of a finished call, with its ErrorInfo if present."""
        code, message = error.code(), error.details() or error.code().name
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE.search(message):
            return cls(grpc.StatusCode.OUT_OF_RANGE, "message_too_large", message)
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _LONG_TRAILERS in message:
            return cls(grpc.StatusCode.INTERNAL, "status_too_long", message)
        return cls(code, *_read(_details(error.trailing_metadata() or ()), message))

    @classmethod
    def from_status(cls, status: status_pb2.Status) -> CallError:
        """Reads a failure that a response carries instead of an answer; OK counts as INTERNAL."""
        code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
        if code is grpc.StatusCode.OK:
            return cls(grpc.StatusCode.INTERNAL, "bad_response", "the server's failure has the status OK")
        return cls(code, *_read(status.details, status.message or code.name))


def seconds_of(duration: duration_pb2.Duration) -> float:
    """Returns a duration that a peer sent, in seconds."""
    return float(duration.seconds) + duration.nanos / 1e9


def _details(trailers: Iterable[tuple[str, str | bytes]]) -> Iterator[any_pb2.Any]:
    """Yields the details that a call's trailers carry."""
    for key, value in trailers:
        if key == _DETAILS_KEY and isinstance(value, bytes):
            with contextlib.suppress(DecodeError):
                yield from status_pb2.Status.FromString(value).details


def _read(details: Iterable[any_pb2.Any], message: str) -> tuple[str, str, dict[str, str], float]:
    """Returns a CallError's reason, message, metadata and pause; details that cannot be read are left out."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for detail in details:
        with contextlib.suppress(DecodeError):
            other = error_details_pb2.ErrorInfo()
            if detail.Unpack(other) and other.domain == ERROR_DOMAIN:
                info = other
            detail.Unpack(retry)
    return info.reason, message, dict(info.metadata), seconds_of(retry.retry_delay)


def _cut(text: str, most: int) -> str:
    """Returns the text, or as much of it as has `most` bytes in UTF-8."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= most else data[:most].decode(errors="ignore") + "…"


def status_of(error: Exception) -> StatusError:
    """Returns the failure that an exception in a handler is; the log gets the traceback of a defect."""
    if isinstance(error, StatusError):
        return error
    log.error("a handler failed", exc_info=error)
    return InternalFailure("internal_error", f"{type(error).__name__} in the server; its log has the traceback")


def trailing_metadata(error: StatusError) -> tuple[tuple[str, bytes], ...]:
    """Returns the trailing metadata that carries a failure's google.rpc.Status."""
    return ((_DETAILS_KEY, status_proto(error).SerializeToString()),)


def status_proto(error: StatusError) -> status_pb2.Status:
    """Returns a failure as google.rpc.Status, with ErrorInfo, and RetryInfo where it is known when to come again."""
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN, metadata=error.metadata)
    status = status_pb2.Status(code=error.code.value[0], message=str(error))
    status.details.add().Pack(info)
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMicroseconds(round(error.retry_after * 1e6))
        status.details.add().Pack(retry)
    return status
