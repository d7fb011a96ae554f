"""`orchestrator view`: a page over a folder of runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from lyncean.cli import Command, examples
from orchestrator.cli.serving import page_options, serve_page


@click.command(
    "view",
    cls=Command,
    epilog=examples(
        "orchestrator view runs",
    ),
)
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@page_options(7480)
def command(folder: Path, port: int, open_it: bool) -> None:
    """Serve a live page of the runs in FOLDER.

    The page is served on 127.0.0.1 only; no file is written.
    """
    from orchestrator.report.live.server import serve

    serve_page(partial(serve, folder), port, open_it=open_it)
