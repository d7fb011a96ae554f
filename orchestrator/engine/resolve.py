"""Endpoints: the values of `--endpoint`, and the addresses of a name."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lyncean.rpc.addresses import refused_user, shown_place
from lyncean.rpc.waits import in_thread
from orchestrator.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A `host:port`, the host a name or a literal address."""

    host: str
    port: int

    def __str__(self) -> str:
        return join(self.host, self.port)

    @property
    def literal(self) -> bool:
        """True if the host is an address and not a name."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


Resolver = Callable[[Endpoint], Awaitable[Sequence[str]]]
"""Returns the `address:port` of every replica of an endpoint; OSError if it cannot."""


def parse_endpoints(texts: Sequence[str]) -> tuple[Endpoint, ...]:
    """Reads endpoints, one or several in each text: `H:P[,H:P...]`.

    Raises:
        ConfigError: If one is not `host:port`, or names a user, or a text names none: an empty variable in
            a script must not become "start one".
    """
    endpoints: dict[Endpoint, None] = {}
    for text in texts:
        if not text.strip(" ,"):
            raise ConfigError(f"endpoint {text!r} is empty: give host:port, for example 127.0.0.1:50051")
        if reason := refused_user(text):
            raise ConfigError(f"endpoint {reason}")
    for part in (part.strip() for text in texts for part in text.split(",")):
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and "/" not in host and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536):
            raise ConfigError(f"endpoint {shown_place(part)!r} is not host:port, for example 127.0.0.1:50051")
        endpoints[Endpoint(host, int(port))] = None
    return tuple(endpoints)


def join(host: str, port: int) -> str:
    """Returns `host:port`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve(endpoint: Endpoint) -> Sequence[str]:
    """Looks an endpoint's name up: one `address:port` per A record (AAAA without an A).

    Raises:
        OSError: If the name is not known.
    """
    if endpoint.literal:
        return [str(endpoint)]
    look_up = partial(socket.getaddrinfo, endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    records = await in_thread(look_up, "names")
    hosts: dict[int, set[str]] = {socket.AF_INET: set(), socket.AF_INET6: set()}
    for family, _, _, _, address in records:
        hosts[family].add(str(address[0]))
    return [join(host, endpoint.port) for host in sorted(hosts[socket.AF_INET] or hosts[socket.AF_INET6])]
