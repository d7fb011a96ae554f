"""Serving and dialling: the only way in which Lyncean's services meet."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lyncean.rpc.channel import (
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
        NotHeld,
        OutOfRange,
        Overloaded,
        StatusError,
        Unauthenticated,
        Unavailable,
        Unsupported,
        status_of,
        status_proto,
    )
    from lyncean.rpc.heap import keep_freed_memory
    from lyncean.rpc.limits import MAX_MESSAGE_BYTES
    from lyncean.rpc.security import SecurityError, Tls
    from lyncean.rpc.serve import BindError, Server
    from lyncean.rpc.settings import PLAIN, Credentials, ServerConfig

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
    "NotHeld",
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
    "status_proto",
]

_MODULES = ("settings", "security", "limits", "heap", "errors", "channel", "serve")
"""Where the names are; the first four import no gRPC."""


def __getattr__(name: str) -> Any:
    # Imported when asked for: a command line is read without gRPC.
    if name in __all__:
        for module in (import_module(f"{__name__}.{each}") for each in _MODULES):
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
