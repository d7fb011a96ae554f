"""Options that a command would take and not use: said, not swallowed."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.core import ParameterSource

DIALLING = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")
"""Parameters of `client_options`, which concern servers that run elsewhere."""


def refuse(names: Iterable[str], why: str) -> None:
    """Ends the command where one of these parameters stands on its command line.

    Args:
        names: Parameters, by the names that the command's function has for them.
        why: What follows the option's name in the error.

    Raises:
        click.UsageError: If one does.
    """
    context = click.get_current_context()
    flags = {param.name: max(param.opts, key=len) for param in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{flags[name]} {why}")


def refuse_dialling(*options: str) -> None:
    """Ends the command where it says how to dial and names nobody to be dialled.

    Args:
        options: The options that would name somebody.

    Raises:
        click.UsageError: If it does.
    """
    refuse(DIALLING, f"is for servers that run already: give {' or '.join(options)}, or leave it out")
