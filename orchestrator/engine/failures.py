"""Failures of calls to replicas, as text for people."""

from __future__ import annotations

import grpc

from lyncean.errors import printable
from lyncean.rpc import CallError, Credentials


def not_there(error: CallError) -> bool:
    """Returns whether a failure means that no server listens at the address, unlike that of a server not yet ready."""
    return error.code is grpc.StatusCode.DEADLINE_EXCEEDED or "failed to connect" in str(error)


def describe(error: CallError) -> str:
    """Returns a call's failure as people read it."""
    message = str(error)
    if "handshake failed" in message:
        message = f"TLS handshake failed: {message.rpartition('OPENSSL_internal:')[2].removesuffix(': OK')}"
    elif "Failed parsing HTTP/2" in message:
        message = "what answers there does not speak gRPC"
    elif "failed to connect" in message:
        message = message.rpartition(": ")[2]
    return f"{error.code.name}: {printable(message[:300])}"


def dialled(credentials: Credentials) -> str:
    """Returns the way to start a server, as text: both ends must agree on TLS."""
    return "with TLS as asked for here" if credentials.tls else "without TLS as asked for here"
