"""`tool-server mcp`: the tools of an MCP server."""

from __future__ import annotations

import functools
import os
import shutil
from typing import TYPE_CHECKING

import click

from lyncean.cli import Command
from lyncean.errors import UserError
from tool_server import tool_options

if TYPE_CHECKING:
    from lyncean.rpc import ServerConfig
    from lyncean_mcp.connection import Transport
    from lyncean_mcp.images import ImageArguments
    from tool_server import Limits


@click.command("mcp", cls=Command)
@click.argument("server", metavar="[URL | -- COMMAND ...]", nargs=-1, required=True)
@click.option(
    "--image",
    "images",
    metavar="TOOL.ARGUMENT=FORM",
    multiple=True,
    help="An argument that is an image: the model gives its number, the tool gets base64, bytes (a list of numbers) or "
    "path (of a file; for a COMMAND); repeatable.",
)
@click.option(
    "--env",
    "environment",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="A variable of COMMAND's environment, which is otherwise empty; without a value that of this process; "
    "repeatable.",
)
@click.option("--stateless", is_flag=True, help="No call depends on earlier ones: none is made again.")
@click.option(
    "--timeout", type=click.IntRange(1, 86_400), default=60, show_default=True, help="Seconds that a call may take."
)
@tool_options
def command(
    server: tuple[str, ...],
    images: tuple[str, ...],
    environment: tuple[str, ...],
    stateless: bool,
    timeout: int,
    config: ServerConfig,
    limits: Limits,
) -> None:
    """Serve the tools of an MCP server: of a COMMAND, started once for each conversation, or at a URL.

    A COMMAND gets no variable of this process' environment but those of --env, not even PATH.
    """
    try:
        from lyncean_mcp.images import image_arguments
        from lyncean_mcp.toolset import McpTools
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed: pip install 'lyncean[mcp]'") from error
    from tool_server import run

    declared = image_arguments(images, config.port)
    transport = _transport(server, environment, declared, timeout)
    run(lambda: McpTools(transport, declared, not stateless, timeout), config, limits, declared.clear)


def _transport(
    server: tuple[str, ...], environment: tuple[str, ...], images: ImageArguments, seconds: float
) -> Transport:
    """Returns the transport that opens sessions with a server.

    Raises:
        UserError: The program does not exist, or an option for programs is used with a URL.
    """
    if len(server) == 1 and server[0].startswith(("http://", "https://")):
        from lyncean_mcp.http import remote

        if environment:
            raise UserError("--env is for a COMMAND, which is started here: leave it out beside a URL")
        if "path" in images.forms.values():
            raise UserError(
                "--image with path is for a COMMAND, which reads files of this machine: take base64 or bytes"
            )
        return functools.partial(remote, server[0], seconds)
    from lyncean_mcp.stdio import child

    program = shutil.which(server[0])
    if program is None:
        raise UserError(
            f"{server[0]} is neither a program that can be run here nor the address of a server (http://...)"
        )
    return functools.partial(child, (program, *server[1:]), _environment(environment))


def _environment(settings: tuple[str, ...]) -> dict[str, str]:
    """Returns the variables that `--env` names.

    Raises:
        UserError: A variable has no value here.
    """
    variables = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name or not (equals or name in os.environ):
            raise UserError(
                f"--env {name}: the variable is not set here: set it, or write --env {name or 'NAME'}=VALUE"
            )
        variables[name] = value if equals else os.environ[name]
    return variables
