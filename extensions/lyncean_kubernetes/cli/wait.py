"""Waits for a run's servers and shards: `python -m lyncean_kubernetes.cli.wait`, the init container of its Jobs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click

from lyncean.cli import Command, client_options
from lyncean.rpc import Credentials, dial, is_serving
from orchestrator.cli import WrittenRun
from orchestrator.engine import Endpoint, parse_endpoints, resolve_endpoint

_EVERY = 2.0
_TELL_EVERY = 60.0

Look = Callable[[], Awaitable[bool]]


@click.command(cls=Command)
@click.option("--endpoint", "endpoints", multiple=True, help="Model servers H:P[,H:P]; one that serves is enough.")
@click.option("--scorer", "scorers", multiple=True, help="Scorer H:P.")
@click.option("--tools", "tools_at", multiple=True, help="Server of tools H:P.")
@click.option("--shards", type=click.IntRange(1), help="Wait until so many shards of --run are complete.")
@click.option("--run", type=WrittenRun(), help="Folder of shard-0, shard-1, ..., a path or URL.")
@click.option("--patience", type=click.FloatRange(0), help="Seconds to wait before it ends with 3; default: no end.")
@client_options
def main(
    credentials: Credentials,
    endpoints: tuple[str, ...],
    scorers: tuple[str, ...],
    tools_at: tuple[str, ...],
    shards: int | None,
    run: Path | str | None,
    patience: float | None,
) -> None:
    """Wait for servers that serve and for shards that are complete, for as long as it takes."""
    if (shards is None) != (run is None):
        raise click.UsageError("--shards and --run go together")
    wanted: dict[str, Look] = {}
    for name, targets, service in (
        ("a model server", endpoints, "lyncean.model.v1.ModelService"),
        ("a scorer", scorers, "lyncean.scorer.v1.ScorerService"),
        ("a server of tools", tools_at, "lyncean.tool.v1.ToolService"),
    ):
        for endpoint in parse_endpoints(targets):
            wanted[f"{name} at {endpoint}"] = partial(_serves, endpoint, service, credentials)
    for index in range(shards or 0):
        assert run is not None
        wanted[f"{run}/shard-{index}"] = partial(_is_complete, f"{run}/shard-{index}")
    try:
        asyncio.run(asyncio.wait_for(_wait(wanted), patience))
    except TimeoutError as error:
        raise _Waited(f"not there within {patience:g} s: {', '.join(wanted)}") from error


class _Waited(click.ClickException):
    exit_code = 3


async def _wait(wanted: dict[str, Look]) -> None:
    printed_at = -_TELL_EVERY
    while True:
        for name in [name for name, look in wanted.items() if await look()]:
            click.echo(f"ready: {name}")
            del wanted[name]
        if not wanted:
            return
        if time.monotonic() - printed_at >= _TELL_EVERY:
            printed_at = time.monotonic()
            click.echo(f"waiting for {', '.join(wanted)}")
        await asyncio.sleep(_EVERY)


async def _serves(endpoint: Endpoint, service: str, credentials: Credentials) -> bool:
    try:
        addresses = await resolve_endpoint(endpoint)
    except OSError:  # no pod is ready yet, so the name has no address
        return False
    for address in addresses:
        async with dial(address, credentials if endpoint.literal else credentials.named(endpoint.host)) as channel:
            if await is_serving(channel, service):
                return True
    return False


async def _is_complete(shard: str) -> bool:
    try:
        tasks = json.loads(await asyncio.to_thread(_results, shard))["tasks"]
    except (FileNotFoundError, NotADirectoryError, ValueError):  # not ended, or being written
        return False
    # The next pod of its Job repeats the failed items of a shard.
    return not any(task["counts"]["failed"] for task in tasks.values())


def _results(folder: str) -> bytes:
    """Reads a shard's results.

    Raises:
        FileNotFoundError: If they are not written yet.
    """
    if "://" not in folder:
        return Path(folder, "results.json").read_bytes()
    from orchestrator.run_folder import RemoteError, Store

    try:
        content = Store(folder).get("results.json")
    except RemoteError as error:
        click.echo(f"{error}; asked again")
        content = None
    if content is None:
        raise FileNotFoundError(folder)
    return content


if __name__ == "__main__":
    main(prog_name="wait")
