"""Options that the subcommands share, and the exit code of a user's mistake."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from scorer.judges.options import Judging
from scorer.metrics import metrics
from scorer.registry import PluginError
from scorer.rules import rules
from scorer.rules.pattern import load
from scorer.scoring import JUDGED_AT_ONCE

Command = TypeVar("Command", bound=Callable[..., Any])
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


ITEMS_OF_A_BATCH = 50_000
"""Items that wait for a judge of the Batch API, which takes so many at once and hours for each batch."""


class UsageExit(click.ClickException):
    """A mistake in what was given: one line on stderr, exit code 2, never retried."""

    exit_code = 2


class JudgeExit(click.ClickException):
    """A judge that does not reply: one line on stderr, exit code 3, to be tried again."""

    exit_code = 3


def in_flight(judging: Judging) -> int:
    """Returns how many items may wait for a judge: enough to keep it busy, or to fill a batch."""
    if judging.batched:
        return ITEMS_OF_A_BATCH
    return max(JUDGED_AT_ONCE, 2 * judging.concurrency)


def rule_options(command: Command) -> Command:
    """Adds the options that say which rules there are; the command gets `registry`."""

    @click.option(
        "--rules",
        "files",
        multiple=True,
        type=_FILE,
        help="Rules in YAML, see docs/write-a-rule.md; repeatable.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, files: tuple[Path, ...], **kwargs: Any) -> Any:
        try:
            registry = rules(rule for file in files for rule in load(file))
            registry.load_plugins()
            metrics().load_plugins()
        except PluginError as error:
            raise UsageExit(str(error)) from error
        return command(*args, registry=registry, **kwargs)

    return wrapped  # type: ignore[return-value]
