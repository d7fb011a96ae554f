"""Numbers a command takes: each with an upper end, so that none is found to be too large in the middle of a run."""

from __future__ import annotations

import click

from lynceus.rpc.options import POSITIVE_SECONDS, SECONDS

LIMIT = click.IntRange(1, 2**31 - 1)
REPEATS = click.IntRange(1, 100_000)
SEED = click.IntRange(-(2**63), 2**63 - 1)
"""What JSON readers and random generators take."""
CONCURRENCY = click.IntRange(1, 1_000_000)
TIMEOUT = POSITIVE_SECONDS
PATIENCE = SECONDS
