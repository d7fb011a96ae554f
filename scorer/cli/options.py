"""Options that the subcommands share, and the exit code of a user's mistake."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from scorer.rules import rules

Command = TypeVar("Command", bound=Callable[..., Any])


class UsageExit(click.ClickException):
    """A mistake in what was given: one line on stderr, exit code 2, never retried."""

    exit_code = 2


def rule_options(command: Command) -> Command:
    """Adds the options that say which rules there are; the command gets `registry`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return command(*args, registry=rules(), **kwargs)

    return wrapped  # type: ignore[return-value]
