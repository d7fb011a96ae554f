"""The judge of a scorer that the orchestrator starts itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from orchestrator.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])


def judge_options(command: Command) -> Command:
    """Adds `--judge` and `--judge-cache`."""
    command = click.option(
        "--judge-cache", metavar="PATH|URL", help="Where the judge's replies are kept; default the user's cache folder."
    )(command)
    return click.option(
        "--judge",
        "judges",
        multiple=True,
        metavar="SPEC",
        help="Judge of the scorer that is started: openai:MODEL[@URL], batch:MODEL[@URL], grpc:H:P or, over TLS,"
        " grpcs:H:P; the key in $LYNCEAN_JUDGE_KEY. More of them make a panel.",
    )(command)


def judge_arguments(judges: Sequence[str], cache: str | None, scorer: str | None) -> list[str]:
    """Returns what the started scorer is given.

    Raises:
        ConfigError: If the scorer is not ours to start, or a cache is given and no judge.
    """
    if scorer and (judges or cache):
        raise ConfigError(f"the scorer at {scorer} has a judge of its own: give --judge to its `scorer serve`")
    if cache and not judges:
        raise ConfigError("--judge-cache keeps what a judge said, and there is none: give --judge, or leave it out")
    words = [word for judge in judges for word in ("--judge", judge)]
    return [*words, "--judge-cache", cache] if cache else words
