"""`orchestrator view`: a page over a folder of runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from lyncean.cli import Command, examples
from orchestrator.cli.folders import WrittenRun
from orchestrator.cli.serving import page_options, serve_page


@click.command(
    "view",
    cls=Command,
    epilog=examples(
        "orchestrator view runs",
        "orchestrator view s3://bucket/runs",
    ),
)
@click.argument("folder", default=".", type=WrittenRun(exists=True))
@page_options(7480)
def command(folder: Path | str, port: int, open_it: bool) -> None:
    """Serve a live page of the runs in FOLDER, and of logs of other tools in it.

    Run folders, logs of Inspect (needs 'lyncean[inspect]') and samples files of lmms-eval and lm-evaluation-harness are
    found up to three folders deep. FOLDER may be a URL (s3://, gs://, az://, file://): the run folders below it are
    listed, and each is fetched into a temporary folder once it is opened. The page is served on 127.0.0.1 only; nothing
    is written into FOLDER.
    """
    from orchestrator.report.live.bucket import Bucket
    from orchestrator.report.live.server import serve

    serve_page(partial(serve, Bucket(folder) if isinstance(folder, str) else folder), port, open_it=open_it)
