"""Settings of servers and clients as plain values, so that parsing a command line does not import gRPC."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from lyncean.errors import UserError
from lyncean.rpc.security import Tls, read_token

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Connection settings of a client: plaintext or TLS, with or without a token.

    Attributes:
        tls: TLS settings; None dials in plaintext.
        token: Bearer token; never shown by repr.
    """

    tls: Tls | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def metadata(self) -> Metadata:
        """Metadata of each call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def named(self, host: str) -> Credentials:
        """Returns credentials for an address resolved from `host`: the certificate names the host, not the address."""
        if self.tls is None or self.tls.server_name:
            return self
        return replace(self, tls=replace(self.tls, server_name=host))


PLAIN = Credentials()


def client_credentials(
    tls: bool | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_server_name: str | None,
    token_file: Path | None,
) -> Credentials:
    """Returns the credentials that a client's options describe; TLS is on if any of its files is given.

    Raises:
        UserError: The options contradict each other.
        SecurityError: The token cannot be read.
    """
    has_tls_option = bool(tls_ca or tls_cert or tls_key or tls_server_name)
    if tls is False and has_tls_option:
        raise UserError("--no-tls contradicts the other --tls options: leave one out")
    use = has_tls_option if tls is None else tls
    return Credentials(
        tls=Tls(tls_cert, tls_key, tls_ca, tls_server_name) if use else None, token=read_token(token_file)
    )


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Listening settings of a server.

    Attributes:
        host: Address to bind; one of IPv6 without brackets.
        port: Port to bind; 0 picks a free one.
        tls: TLS settings; None listens in plaintext.
        token: Bearer token that every call but health must carry; None asks for none.
        health_port: A second port, in plaintext, with health alone, for probes that speak
            neither TLS nor mTLS (Kubernetes' gRPC probes do not). None opens none.
        port_file: File that gets the bound port as text once the server listens.
        grace: Seconds that calls in flight are given when the server stops.
        max_connection_age: Seconds after which a connection is rotated; None never.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    token: str | None = field(default=None, repr=False)
    health_port: int | None = None
    port_file: Path | None = None
    grace: float = 30.0
    max_connection_age: float | None = None
