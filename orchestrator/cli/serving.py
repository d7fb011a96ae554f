"""Pages that a command serves on this machine until Ctrl+C."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from http.server import ThreadingHTTPServer

import click

from lyncean.cli.options import Decorated


def page_options(port: int) -> Callable[[Decorated], Decorated]:
    """Returns a decorator that adds --port and --open to a command."""

    def decorate(command: Decorated) -> Decorated:
        command = click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")(command)
        return click.option(
            "--port", default=port, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 picks a free one."
        )(command)

    return decorate


def serve_page(make: Callable[[int], ThreadingHTTPServer], port: int, *, open_it: bool) -> None:
    """Serves a page until Ctrl+C, by the server that `make` returns for a port.

    Raises:
        click.UsageError: The port is taken.
    """
    try:
        server = make(port)
    except OSError as error:
        raise click.UsageError(f"port {port} cannot be used ({error.strerror}): give another --port, or 0") from error
    address = "http://{}:{}/".format(*server.server_address[:2])
    click.echo(f"{address}  (Ctrl+C ends it)")
    if open_it:
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo()
    finally:
        server.server_close()
