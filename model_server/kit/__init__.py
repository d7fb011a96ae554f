"""The kit for a model server in Python: subclass `Model`, implement `generate`, call `main`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from model_server.kit.model import Model, Output, Request, Score

if TYPE_CHECKING:
    import click

__all__ = ["Model", "Output", "Request", "Score", "command", "main"]


def command(make: Callable[[], Model]) -> click.Command:
    """Returns the command line of a server for `make()`, with the options that every server has.

    Args:
        make: The model's class, or any function that builds it without loading it.
    """
    from model_server.cli import server_command
    from model_server.kit.backend import KitBackend

    return server_command(lambda metrics: KitBackend(make(), metrics))


def main(make: Callable[[], Model]) -> None:
    """Runs that command line."""
    command(make)()
