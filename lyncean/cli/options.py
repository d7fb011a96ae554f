"""Command-line options shared by all servers and all clients."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lyncean.errors import UserError
from lyncean.rpc.parent import end_with_parent
from lyncean.rpc.security import Tls, read_token
from lyncean.rpc.settings import ServerConfig, client_credentials
from lyncean.vocabulary.shares import share_of

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
PORT = click.IntRange(0, 65535)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""A file that exists."""


class FiniteRange(click.FloatRange):
    """A range of numbers with both ends; click's own lets `nan` through, which compares false with everything."""

    def __init__(self, low: float, high: float, *, above_low: bool = False) -> None:
        super().__init__(low, high, min_open=above_low)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses a number; a range up to 1 also accepts percentages."""
        if self.max == 1:
            with contextlib.suppress(ValueError):  # the range reports the mistake
                value = share_of(value)
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


SECONDS = FiniteRange(0, 1e8)
"""A duration. gRPC ends every call at once if its deadline is longer than this."""
POSITIVE_SECONDS = FiniteRange(0.001, 1e8)
"""A duration that must be positive."""


def bundled(name: str, build: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Returns a decorator that adds several options to a command, which receives one value built from them.

    Args:
        name: The command's parameter.
        build: Builds the value; its parameters are the options' names.
        options: Decorators of click, in the order of `--help`.
    """
    names = list(inspect.signature(build).parameters)

    def decorate(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            values = {option: kwargs.pop(option) for option in names if option in kwargs}
            return command(*args, **{name: build(**values)}, **kwargs)

        return functools.reduce(lambda inner, option: option(inner), reversed(options), wrapped)  # type: ignore[return-value]

    return decorate


metrics_option = click.option("--metrics-port", type=PORT, help="Port for Prometheus metrics; default: none.")
"""Option of every server with metrics."""


def _server_config(
    host: str,
    port: int,
    port_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    token_file: Path | None,
    grace: float,
    health_port: int | None = None,
    max_connection_age: float | None = None,
) -> ServerConfig:
    end_with_parent()
    tls = Tls(tls_cert, tls_key, tls_client_ca) if tls_cert or tls_key or tls_client_ca else None
    if tls and not (tls_cert and tls_key):
        raise UserError("TLS needs both --tls-cert and --tls-key")
    return ServerConfig(
        host=host.removeprefix("[").removesuffix("]"),
        port=port,
        tls=tls,
        token=read_token(token_file),
        health_port=health_port,
        port_file=port_file,
        grace=grace,
        max_connection_age=max_connection_age,
    )


def server_options(default_port: int, *, grpc: bool = True) -> Callable[[Decorated], Decorated]:
    """Adds the options of a server; the command gets them as one `config: ServerConfig`.

    Args:
        default_port: The port if none is given.
        grpc: Whether the server speaks gRPC and takes its options.
    """
    health_port = click.option("--health-port", type=PORT, help="Second port, plaintext, for health probes alone.")
    age = click.option("--max-connection-age", type=SECONDS, help="Close connections after this many seconds.")
    return bundled(
        "config",
        _server_config,
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Address to bind; 0.0.0.0 or :: in a container."
        ),
        click.option("--port", type=PORT, default=default_port, show_default=True, help="Port; 0 picks a free one."),
        click.option("--port-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the bound port here."),
        *([health_port] if grpc else []),
        click.option("--tls-cert", type=FILE, help="Server certificate (PEM); turns TLS on."),
        click.option("--tls-key", type=FILE, help="Its private key (PEM)."),
        click.option("--tls-client-ca", type=FILE, help="Require client certificates signed by this CA (mTLS)."),
        click.option("--token-file", type=FILE, help="Require this bearer token (else $LYNCEAN_TOKEN)."),
        click.option(
            "--grace",
            type=SECONDS,
            default=30.0,
            show_default=True,
            help="Seconds to finish requests in flight after SIGTERM.",
        ),
        *([age] if grpc else []),
    )


client_options = bundled(
    "credentials",
    client_credentials,
    click.option("--tls/--no-tls", default=None, help="Connect over TLS; on if any --tls-* file is given."),
    click.option("--tls-ca", type=FILE, help="CA certificates to trust (PEM); default: the system's."),
    click.option("--tls-cert", type=FILE, help="Client certificate (PEM) for mTLS."),
    click.option("--tls-key", type=FILE, help="Its private key (PEM)."),
    click.option("--tls-server-name", help="Name in the server's certificate, if not the host."),
    click.option("--token-file", type=FILE, help="Bearer token to send (else $LYNCEAN_TOKEN)."),
)
"""Adds the options of a client; the command gets them as one `credentials: Credentials`."""
