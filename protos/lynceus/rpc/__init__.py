"""Serving and dialling: the only way in which Lynceus's services meet."""

from lynceus.rpc.dial import (
    PLAIN,
    Credentials,
    call,
    call_stream,
    check_size,
    dial,
    is_serving,
    prepared,
    prepared_stream,
)
from lynceus.rpc.errors import (
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
from lynceus.rpc.heap import keep_freed_memory
from lynceus.rpc.limits import MAX_MESSAGE_BYTES
from lynceus.rpc.security import SecurityError, Tls
from lynceus.rpc.serve import BindError, Server, ServerConfig, status_of

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
    "prepared",
    "prepared_stream",
    "status_of",
]
