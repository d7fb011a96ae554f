"""`orchestrator view`: a page over a folder of runs."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from lyncean.cli import Command, examples


@click.command(
    "view",
    cls=Command,
    epilog=examples(
        "orchestrator view runs",
    ),
)
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--port", default=7480, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 picks a free one."
)
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
def command(folder: Path, port: int, open_it: bool) -> None:
    """Serve a live page of the runs in FOLDER.

    The page is served on 127.0.0.1 only; no file is written.
    """
    from orchestrator.report.live.server import HOST, serve

    try:
        server = serve(folder, port)
    except OSError as error:
        raise click.UsageError(f"port {port} cannot be used ({error.strerror}): give another --port, or 0") from error
    address = f"http://{HOST}:{server.server_address[1]}/"
    click.echo(f"{address}  (Ctrl+C ends it)")
    if open_it:
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo()
    finally:
        server.server_close()
