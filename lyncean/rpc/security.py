"""TLS material and bearer tokens, read from files or the environment, never from a flag's value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lyncean.errors import UserError

if TYPE_CHECKING:
    import grpc

TOKEN_VARIABLE = "LYNCEAN_TOKEN"  # noqa: S105
"""Environment variable that holds the bearer token where no file is named."""
TOOL_TOKEN_VARIABLE = "LYNCEAN_TOOL_TOKEN"  # noqa: S105
"""Environment variable that holds the bearer token for servers of tools, which get no other."""


class SecurityError(UserError):
    """TLS or token settings that cannot work. A configuration mistake: never retried."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files.

    Attributes:
        certificate: This side's certificate chain; a server needs it, a client only for mTLS.
        key: The certificate's private key.
        ca: Authorities that the other side's certificate is checked against. On a server it
            makes a client certificate mandatory; on a client None means the system's roots.
        server_name: Client only: the name the server's certificate must carry, where it is
            not the host that is dialled.
    """

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    server_name: str | None = None

    def server_credentials(self) -> grpc.ServerCredentials:
        """Returns credentials that follow the files: a renewed certificate needs no restart.

        Raises:
            SecurityError: If a file is missing, cannot be read or is not what it should be.
        """
        import grpc

        certificate, key, ca = self.certificate, self.key, self.ca
        if certificate is None or key is None:
            raise SecurityError("TLS needs both --tls-cert and --tls-key")
        files = [path for path in (certificate, key, ca) if path]
        seen = [_stamp(files)]

        def read() -> grpc.ServerCertificateConfiguration:
            _check(certificate, key, ca)
            pair = (_read(key), _read(certificate))
            return grpc.ssl_server_certificate_configuration([pair], _read(ca) if ca else None)

        def renew() -> grpc.ServerCertificateConfiguration | None:
            try:
                stamp = _stamp(files)
                if stamp == seen[0]:
                    return None
                fresh = read()
            except SecurityError:
                return None  # half-renewed files: the old certificate serves on
            seen[0] = stamp
            return fresh

        return grpc.dynamic_ssl_server_credentials(read(), renew, ca is not None)  # type: ignore[arg-type]

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Returns a client's credentials.

        Raises:
            SecurityError: If a file is missing, cannot be read or is not what it should be.
        """
        import grpc

        if (self.certificate is None) != (self.key is None):
            raise SecurityError("a client certificate needs both --tls-cert and --tls-key")
        _check(self.certificate, self.key, self.ca)
        return grpc.ssl_channel_credentials(
            *(_read(path) if path else None for path in (self.ca, self.key, self.certificate))
        )


def read_token(file: Path | None, variable: str = TOKEN_VARIABLE) -> str | None:
    """Returns the bearer token from a file, else from an environment variable, else None.

    Raises:
        SecurityError: If the file cannot be read or either source is empty.
    """
    if file is not None:
        token = _read(file).decode("utf-8", "replace").strip()
        source = f"token file {file}"
    else:
        if variable not in os.environ:
            return None
        token, source = os.environ[variable].strip(), f"${variable}"
    if not token:
        raise SecurityError(f"{source} is empty: write the token into it")
    if not token.isascii() or not token.isprintable():
        raise SecurityError(f"{source} holds characters that a header cannot carry: use ASCII")
    return token


def _check(certificate: Path | None, key: Path | None, ca: Path | None) -> None:
    import ssl

    # gRPC accepts any bytes and fails later, at each handshake, without a reason.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        if ca:
            context.load_verify_locations(cadata=_read(ca).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise SecurityError(f"{ca} holds no certificate in PEM") from error
    if not (certificate and key):
        return
    for path in (certificate, key):
        _read(path)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None)
        detail = f": {reason.replace('_', ' ').lower()}" if reason else ""
        raise SecurityError(f"{certificate} and {key} are no certificate and its private key in PEM{detail}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SecurityError(f"cannot read {path}: {error.strerror}") from error


def _stamp(paths: list[Path]) -> list[tuple[int, int]]:
    try:
        return [(s.st_mtime_ns, s.st_ino) for s in (path.stat() for path in paths)]
    except OSError as error:
        raise SecurityError(f"cannot read {error.filename}: {error.strerror}") from error
