"""Connections of the front: bounded in number, with a deadline for the head of each request."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN = 20.0
"""Seconds from a connection, or the first byte of its next request, until the request's head is complete."""
_MOST = 1024


def most_connections() -> int:
    """Returns how many connections the front keeps open: a half of the files that the process may open.

    The other half is gRPC's, which shares the process, and that of checkpoints and media.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // 2))


def backlog() -> int:
    """Returns how many connections may wait to be accepted; asyncio accepts as many at once, before it counts them."""
    return max(1, min(128, most_connections() // 4))


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 connection, which ends where no request arrives.

    uvicorn has no deadline for a head, and no bound on connections: half a head from each of a thousand clients, who
    need no token for it, would take all files of the process, and gRPC could accept nobody.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection; of too many, the one that has waited longest for a request ends."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > most_connections():
            waiting = [one for one in self.connections if isinstance(one, BoundedProtocol) and one._head_timer]
            oldest = min(waiting, key=lambda one: one._head_timer.when() if one._head_timer else 0.0)
            oldest.transport.abort()
            oldest.connections.discard(oldest)

    def data_received(self, data: bytes) -> None:
        """Reads; the head's clock runs from its first byte until it is complete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head_arrived()
        elif self._head_timer is None:  # the next head has begun, or a body that is answered already goes on
            self._await_head()

    def on_response_complete(self) -> None:
        """Goes on to the next request, which uvicorn awaits for `timeout_keep_alive`."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # refused before its body was read
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._head_arrived()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_arrived()
        self._head_timer = self.loop.call_later(HEAD_WITHIN, self.transport.abort)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
