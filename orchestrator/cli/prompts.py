"""`orchestrator prompts`: what a task sends, without sending it."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lyncean.cli import Command, examples
from lyncean.cli.options import client_options
from orchestrator.cli.options import refuse, refuse_dialling, request_options

if TYPE_CHECKING:
    from lyncean.rpc import Credentials
    from orchestrator.engine import Endpoint
    from orchestrator.engine.deviations import Deviations
    from orchestrator.run_folder.parts import StoreMedium
    from orchestrator.samples import Call, Sample

_TIMEOUT = 600.0
"""Seconds for one request."""


@click.command(
    "prompts",
    cls=Command,
    epilog=examples(
        "orchestrator prompts --task marvel --synthetic --limit 1",
        "orchestrator prompts --task animals.yaml --limit 2 --images pictures",
        "orchestrator prompts --task marvel --synthetic --limit 1 --endpoint 127.0.0.1:50051 --rendered",
    ),
)
@request_options(
    *("tasks", "data", "synthetic", "limit", "method", "repeats"),
    *("shuffle_options", "blind", "parity", "seed", "settings"),
    *("answer", "generation", "thinking", "chat_template", "tools", "protocol", "max_calls", "max_answer_tokens"),
)
@click.option(
    "--images",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write images, audio and videos here, named by sha256.",
)
@click.option("--rendered", is_flag=True, help="Add the text and the tokens that the model is given.")
@click.option("--endpoint", "-e", help="The model server that renders them, H:P.")
@client_options
def command(
    images: Path | None, rendered: bool, endpoint: str | None, credentials: Credentials, **parameters: Any
) -> None:
    """Print each request exactly as eval would send it, one JSON object per line.

    Images and clips are shown as {"media_type", "sha256", "bytes_length"}. A turn that depends on
    earlier ones is shown with placeholders: the text "{answer 1}" for the first, a small grey image
    for a generated image, and log-likelihoods of 0. With --rendered each request is sent to a model
    server, with one output token at most, and what it made of it is added.
    """
    import orjson

    from lyncean.errors import printable_json
    from orchestrator.engine import parse_endpoints
    from orchestrator.run import tools
    from orchestrator.run.plan import make
    from orchestrator.run.request import RunRequest
    from orchestrator.run_folder.image_store import ImageStore

    endpoints = parse_endpoints([] if endpoint is None else [endpoint])
    if rendered and not endpoints:
        raise click.UsageError("--rendered asks a model server: give --endpoint H:P")
    if not rendered:
        refuse(["endpoint"], "is asked for rendered prompts: give --rendered as well, or leave it out")
        if not tools.endpoints_of(parameters["tools"]):
            refuse_dialling("--endpoint with --rendered")

    put = ImageStore(images).put if images else lambda data: hashlib.sha256(data).hexdigest()
    try:
        # There are no answers that a task's code could run.
        plan = make(RunRequest(**parameters, credentials=credentials, trust_task_code=True))
        if plan.play and tools.endpoints_of(plan.play.names):
            play = asyncio.run(tools.described(plan.play, plan.request, lambda line: click.echo(line, err=True)))
            plan = dataclasses.replace(plan, play=play)
        # Looked at for what it refuses: contradictions between options.
        _ = plan.needs
        lines = (text for sample in plan.samples() for text in _lines(sample, plan.changes(), lambda m: put(m.data)))

        def show(line: dict[str, Any]) -> None:
            sys.stdout.buffer.write(printable_json(orjson.dumps(line).decode()).encode() + b"\n")

        if rendered:
            asyncio.run(_show_rendered(lines, show, endpoints, credentials))
            return
        for line, _ in lines:
            show(line)
    except BrokenPipeError:
        raise  # `head` has what it wanted: click ends the command without a word.
    except OSError as error:
        where = error.filename or "the standard output"
        raise click.UsageError(f"{where} cannot be written: {error.strerror}") from error


async def _show_rendered(
    lines: Iterable[tuple[dict[str, Any], Call | None]],
    show: Callable[[dict[str, Any]], None],
    endpoints: Sequence[Endpoint],
    credentials: Credentials,
) -> None:
    from orchestrator.run.rendered import renderer

    async with renderer(endpoints, credentials, _TIMEOUT) as render:
        for line, call in lines:
            show(line if call is None else line | await render(call))
            sys.stdout.flush()


def _lines(sample: Sample, changes: Deviations, store: StoreMedium) -> Iterator[tuple[dict[str, Any], Call | None]]:
    """Yields a sample's lines, each with its call, None where none would be made."""
    from orchestrator.run.dry_run import walk
    from orchestrator.run_folder.records import request_json, scoring_json
    from orchestrator.samples import Call

    for turn, call in walk(sample, changes):
        scoring = scoring_json(turn.scoring) or {}
        targets = scoring.get("targets", [])
        line = {
            "key": sample.item_key(turn),
            "task": sample.key.split("/", 1)[0],
            "step": turn.name,
            "rule": scoring.get("rule"),
            "params": scoring.get("params", {}),
            "target": targets[0] if len(targets) == 1 else targets or None,
            "options": scoring.get("options", []),
            "labels": scoring.get("labels", {}),
            "group": scoring.get("group", ""),
        }
        if isinstance(call, Call):
            yield line | {"stage": call.stage, "request": request_json(call, store)}, call
        else:
            yield line | {"request": None, "error": {"reason": call.reason, "message": str(call)}}, None
