"""Numbers a command takes: each with an upper end, so that none is found to be too large in the middle of a run."""

from __future__ import annotations

import functools
from typing import Any

import click

from lyncean.rpc.options import POSITIVE_SECONDS, SECONDS


class _Option(click.Option):
    """An option whose `--help` does not say where its numbers end: those ends concern nobody; errors name them.

    What it takes is called N where that is a whole number, else SECONDS.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes.setdefault("metavar", "N" if isinstance(attributes["type"], click.IntRange) else "SECONDS")
        super().__init__(*args, **attributes)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Returns what stands in brackets behind the help."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


numeric = functools.partial(click.option, cls=_Option)
"""As `click.option`, for numbers of the ranges below."""

LIMIT = click.IntRange(1, 2**31 - 1)
REPEATS = click.IntRange(1, 100_000)
SEED = click.IntRange(-(2**63), 2**63 - 1)
"""What JSON readers and random generators take."""
CONCURRENCY = click.IntRange(1, 1_000_000)
TIMEOUT = POSITIVE_SECONDS
PATIENCE = SECONDS
