"""`scorer serve`: the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lyncean.cli import Command
from lyncean.cli.options import metrics_option, server_options
from lyncean.errors import UserError
from lyncean.rpc import ServerConfig
from lyncean.rpc.logs import log_to_stderr
from scorer.cli.options import foreign_options, in_flight, judge_options, rule_options

if TYPE_CHECKING:
    from scorer.foreign_tasks import ForeignTasks
    from scorer.judges.options import Judging
    from scorer.registry import Registry
    from scorer.rule import AnyRule
    from scorer.telemetry import NoTelemetry


@click.command("serve", cls=Command)
@server_options(50052)
@rule_options
@judge_options
@foreign_options
@metrics_option
def command(
    config: ServerConfig,
    registry: Registry[AnyRule],
    judging: Judging,
    foreign: ForeignTasks,
    metrics_port: int | None,
) -> None:
    """Serve lyncean.scorer.v1.ScorerService until SIGTERM, then drain."""
    import asyncio

    from scorer.foreign_tasks import allow
    from scorer.telemetry import NoTelemetry, Telemetry

    log_to_stderr("%(asctime)s %(levelname)s %(message)s")
    allow(foreign)
    if foreign.on:
        _name_layers()
    telemetry: NoTelemetry = NoTelemetry()
    if metrics_port is not None:
        telemetry = Telemetry()
        try:
            telemetry.listen(config.host, metrics_port)
        except OSError as error:
            raise UserError(f"cannot listen on metrics port {metrics_port}: {error.strerror}") from error
    asyncio.run(_serve(config, registry, judging, telemetry))


def _name_layers() -> None:
    """Logs the layers that close the cells of foreign code, and those that this system lacks."""
    import logging

    from lyncean.cell import LAYERS
    from scorer.foreign_tasks import layers

    missing = ", ".join(name for name in LAYERS if name not in layers())
    note = f" ({missing}: not on this system, so that code that runs answers needs --trust-task-code)"
    logging.getLogger(__name__).info("cell: %s%s", ", ".join(layers()), note if missing else "")


async def _serve(config: ServerConfig, registry: Registry[AnyRule], judging: Judging, telemetry: NoTelemetry) -> None:
    import logging

    from scorer.scoring import Scorer
    from scorer.service import SERVICE, server

    judges = judging.open()
    scorer = Scorer(registry, judges.judge if judges else None, judging.reads, in_flight(judging))
    serving = server(config, scorer, judges.names if judges else (), telemetry)
    serving.catch_signals()
    port = await serving.start()
    await serving.set_serving()
    logging.getLogger(__name__).info("%s listens on %s:%d", SERVICE, config.host, port)
    await serving.run_until_signal()
    if judges is not None:
        await judges.close()
