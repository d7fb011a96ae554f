"""`scorer serve`: the service."""

from __future__ import annotations

import asyncio
import logging

import click

from lynceus.rpc import BindError, SecurityError, ServerConfig
from lynceus.rpc.options import server_options
from scorer.cli.options import UsageExit, rule_options
from scorer.judges.options import Judging, judge_options, opened
from scorer.rules.base import AnyRule
from scorer.rules.registry import Registry
from scorer.scoring import Scorer
from scorer.service import SERVICE, server


@click.command("serve")
@server_options(50052)
@rule_options
@judge_options
def command(config: ServerConfig, registry: Registry[AnyRule], judging: Judging) -> None:
    """Serve lynceus.scorer.v1.ScorerService until SIGTERM, then drain."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_serve(config, registry, judging))


async def _serve(config: ServerConfig, registry: Registry[AnyRule], judging: Judging) -> None:
    judge = opened(judging)
    serving = server(config, Scorer(registry, judge, judging.reread), judging.specs)
    try:
        port = await serving.start()
    except (BindError, SecurityError) as error:
        raise UsageExit(str(error)) from error
    await serving.set_serving()
    logging.getLogger(__name__).info("%s listens on %s:%d", SERVICE, config.host, port)
    await serving.run_until_signal()
    if judge is not None:
        await judge.close()
