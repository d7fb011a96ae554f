"""`tool-server serve FILE.py`: the tools of a Python file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lyncean.cli import Command
from lyncean.cli.options import FILE
from tool_server.cli.options import tool_options

if TYPE_CHECKING:
    from lyncean.rpc import ServerConfig
    from tool_server.settings import Limits


@click.command("serve", cls=Command)
@click.argument("file", metavar="FILE.py", type=FILE)
@tool_options
def command(file: Path, config: ServerConfig, limits: Limits) -> None:
    """Serve the tools of FILE.py: a subclass of `tool_server.kit.Tools`, or any Toolset by the name `toolset`."""
    from tool_server.load import load
    from tool_server.serve import run

    run(lambda: load(file), config, limits)
