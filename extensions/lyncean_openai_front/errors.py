"""Maps the contract's statuses to HTTP statuses, and writes OpenAI-style error bodies."""

from __future__ import annotations

import logging
import math

import grpc
from starlette.responses import JSONResponse

from lyncean.errors import printable
from lyncean.rpc import CallError

log = logging.getLogger(__name__)
_LINE = 1500

HTTP: dict[grpc.StatusCode, tuple[int, str]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (400, "invalid_request_error"),
    grpc.StatusCode.OUT_OF_RANGE: (400, "context_length_exceeded"),
    grpc.StatusCode.PERMISSION_DENIED: (400, "content_policy_violation"),
    grpc.StatusCode.UNIMPLEMENTED: (422, "unsupported_error"),
    grpc.StatusCode.FAILED_PRECONDITION: (412, "failed_precondition"),
    grpc.StatusCode.NOT_FOUND: (404, "not_found_error"),
    grpc.StatusCode.ALREADY_EXISTS: (422, "already_exists"),
    grpc.StatusCode.UNAUTHENTICATED: (401, "authentication_error"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (429, "rate_limit_error"),
    grpc.StatusCode.UNAVAILABLE: (503, "unavailable"),
    grpc.StatusCode.ABORTED: (409, "aborted"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (504, "timeout"),
    grpc.StatusCode.CANCELLED: (499, "cancelled"),
    grpc.StatusCode.INTERNAL: (500, "internal_error"),
    grpc.StatusCode.UNKNOWN: (500, "unknown"),
    grpc.StatusCode.DATA_LOSS: (500, "data_loss"),
}
"""HTTP status and error type of each gRPC status.

Clients repeat 408, 409, 429 and 5xx, so each status that must not be sent again is another 4xx. A prompt refused by
policy is 400 as at OpenAI: clients take 403 for a wrong key.
"""


class BodyTooLarge(CallError):
    """A body beyond the limit: 413, which gRPC has no status for."""


class BodyTooSlow(CallError):
    """A body that does not arrive: 408, as it is the client that is late."""


def refuse(reason: str, message: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT) -> CallError:
    """Returns the failure of a request that this front refuses."""
    return CallError(code, reason, message)


def error_response(error: CallError, param: str | None = None) -> JSONResponse:
    """Returns the response to a request that failed."""
    status, kind = (502, "bad_gateway") if error.foreign else HTTP[error.code]
    if isinstance(error, BodyTooLarge):
        status = 413
    if isinstance(error, BodyTooSlow):
        status = 408
    text = printable(" ".join(str(error).split()))
    text = text if len(text) <= _LINE else f"{text[:_LINE]}..."
    body = {"message": text, "type": kind, "param": param, "code": printable(error.reason)}
    headers = {"Retry-After": str(math.ceil(error.retry_after))} if error.retry_after else {}
    return JSONResponse({"error": body}, status_code=status, headers=headers)


def failure_response(error: Exception) -> JSONResponse:
    """Returns the response to a request that ended by this error; a defect is logged, and not shown."""
    if not isinstance(error, CallError):
        log.error("a request failed", exc_info=error)
        failure = f"{type(error).__name__} in the server; its log has the traceback"
        error = CallError(grpc.StatusCode.INTERNAL, "internal_error", failure)
    return error_response(error)
