"""Serving and dialling: the only way in which Lyncean's services meet."""

from lyncean.rpc.dial import (
    PLAIN,
    Credentials,
    call,
    call_stream,
    check_size,
    dial,
    is_serving,
    parsing,
)
from lyncean.rpc.errors import (
    CONSEQUENCES,
    CallError,
    Consequence,
    DeadlineExceeded,
    Denied,
    InternalFailure,
    InvalidRequest,
    OutOfRange,
    Overloaded,
    StatusError,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from lyncean.rpc.heap import keep_freed_memory
from lyncean.rpc.limits import MAX_MESSAGE_BYTES
from lyncean.rpc.security import SecurityError, Tls
from lyncean.rpc.serve import BindError, Server, ServerConfig, status_of

__all__ = [
    "CONSEQUENCES",
    "MAX_MESSAGE_BYTES",
    "PLAIN",
    "BindError",
    "CallError",
    "Consequence",
    "Credentials",
    "DeadlineExceeded",
    "Denied",
    "InternalFailure",
    "InvalidRequest",
    "OutOfRange",
    "Overloaded",
    "SecurityError",
    "Server",
    "ServerConfig",
    "StatusError",
    "Tls",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "call",
    "call_stream",
    "check_size",
    "dial",
    "is_serving",
    "keep_freed_memory",
    "parsing",
    "status_of",
]
