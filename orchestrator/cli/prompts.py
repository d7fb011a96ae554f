"""`orchestrator prompts`: what a task sends, without sending it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lyncean.cli import Command, examples
from orchestrator.cli.options import request_options

if TYPE_CHECKING:
    from orchestrator.engine.deviations import Deviations
    from orchestrator.run_folder.records import StoreMedium
    from orchestrator.samples import Sample


@click.command(
    "prompts",
    cls=Command,
    epilog=examples(
        "orchestrator prompts --task marvel --synthetic --limit 1",
        "orchestrator prompts --task animals.yaml --limit 2 --images pictures",
    ),
)
@request_options(
    *("tasks", "data", "synthetic", "limit", "method", "repeats"),
    *("shuffle_options", "blind", "parity", "seed", "settings"),
)
@click.option(
    "--images",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write images, audio and videos here, named by sha256.",
)
def command(images: Path | None, **parameters: Any) -> None:
    """Print each request exactly as eval would send it, one JSON object per line.

    Images and clips are shown as {"media_type", "sha256", "bytes_length"}. A turn that depends on
    earlier ones is shown with placeholders: the text "{answer 1}" for the first, a small grey image
    for a generated image, and log-likelihoods of 0.
    """
    import orjson

    from orchestrator.run.plan import make
    from orchestrator.run.request import RunRequest
    from orchestrator.run_folder.image_store import ImageStore

    put = ImageStore(images).put if images else _sha256
    try:
        plan = make(RunRequest(**parameters))
        # Looked at for what it refuses: contradictions between options.
        _ = plan.needs
        for sample in plan.samples():
            for line in _lines(sample, plan.changes(), lambda medium: put(medium.data)):
                sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    except BrokenPipeError:
        raise  # `head` has what it wanted: click ends the command without a word.
    except OSError as error:
        where = error.filename or "the standard output"
        raise click.UsageError(f"{where} cannot be written: {error.strerror}") from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _lines(sample: Sample, changes: Deviations, store: StoreMedium) -> Iterator[dict[str, Any]]:
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
            yield line | {"stage": call.stage, "request": request_json(call, store)}
        else:
            yield line | {"request": None, "error": {"reason": call.reason, "message": str(call)}}
