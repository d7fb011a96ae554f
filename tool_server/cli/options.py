"""Options that every server of tools has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lyncean.cli.options import bundled, server_options
from tool_server.settings import Limits

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
DEFAULT_PORT = 50053


def _limits(max_concurrency: int, max_sessions: int) -> Limits:
    return Limits(max_concurrency, max_sessions)


def tool_options(command: Decorated) -> Decorated:
    """Adds the options of a server of tools; the command gets `config: ServerConfig` and `limits: Limits`."""
    limits = bundled(
        "limits",
        _limits,
        click.option(
            "--max-concurrency",
            type=click.IntRange(1, 1024),
            default=8,
            show_default=True,
            help="Calls made at the same time.",
        ),
        click.option(
            "--max-sessions",
            type=click.IntRange(1, 65_536),
            default=64,
            show_default=True,
            help="Sessions kept open; the one idle longest makes room, and is made anew from its history.",
        ),
    )
    return server_options(DEFAULT_PORT)(limits(command))
