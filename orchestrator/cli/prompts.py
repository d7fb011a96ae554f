"""`orchestrator prompts`: what a task sends, without sending it."""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from orchestrator.cli.groups import examples
from orchestrator.run.ranges import LIMIT, REPEATS, SEED, numeric

if TYPE_CHECKING:
    from orchestrator.run.plan import Plan
    from orchestrator.samples import Sample


@click.command(
    "prompts",
    epilog=examples(
        "orchestrator prompts --task marvel --synthetic --limit 1",
        "orchestrator prompts --task animals.yaml --limit 2 --images pictures",
    ),
)
@click.option("--task", "-t", "tasks", multiple=True, required=True, help="Task, group or .yaml task file; repeatable.")
@click.option("--data", multiple=True, help="Path or hub id of the data, or TASK=PATH; default each task's hub id.")
@click.option("--synthetic", is_flag=True, help="Draw rows from the seed instead of reading data.")
@numeric("--limit", type=LIMIT, help="Only the first N rows of each task.")
@click.option("--method", type=click.Choice(["generate", "likelihood"]), default="generate", show_default=True)
@numeric("--repeats", type=REPEATS, default=1, show_default=True, help="Each row N times, as eval asks it.")
@click.option("--shuffle-options", is_flag=True, help="Permute options as eval does.")
@click.option("--blind", is_flag=True, help="Grey images in place of the real ones.")
@click.option("--parity", is_flag=True, help="Ask as the reference implementation does.")
@numeric("--seed", type=SEED, default=0, show_default=True, help="As of eval.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the benchmark's own.")
@click.option("--images", type=click.Path(file_okay=False, path_type=Path), help="Write images here, named by sha256.")
def command(images: Path | None, **given: Any) -> None:
    """Print each request exactly as eval would send it, one JSON object a line.

    Images stand as {"media_type", "sha256", "bytes_length"}. A turn that needs the answers to
    earlier ones is shown with stand-ins: the text "{answer 1}" for the first, a small grey image
    where an image was asked for, and likelihoods of 0.
    """
    import orjson

    from orchestrator.data.rows import DataError
    from orchestrator.errors import EngineError
    from orchestrator.run import plan as run_plan
    from orchestrator.run_folder.image_store import ImageStore

    store = ImageStore(images).put if images else _sha256
    try:
        plan = run_plan.make(given.pop("tasks"), **given)
        # Looked at for what it refuses: contradictions between options.
        _ = plan.needs
        for line in _lines(plan, store):
            sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    except EngineError as error:
        _fail(error, error.exit_code)
    except DataError as error:
        _fail(error, 2)
    except BrokenPipeError:
        raise  # `head` has what it wanted: click ends the command without a word.
    except OSError as error:
        where = error.filename or "the standard output"
        raise click.UsageError(f"{where} cannot be written: {error.strerror}") from error


def _fail(error: Exception, code: int) -> NoReturn:
    click.echo(f"Error: {' '.join(str(error).split())}", err=True)
    sys.exit(code)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _lines(plan: Plan, store: Callable[[bytes], str]) -> Iterator[dict[str, Any]]:
    for task in plan.tasks:
        for number, row in enumerate(itertools.islice(task.source, plan.limit), 1):
            for repeat in range(plan.repeats):
                variant = replace(task.variant, repeat=repeat)
                for sample in plan.samples_of(task, number, row, variant):
                    yield from _sample(variant.task, sample, plan.blind, store)


def _sample(task: str, sample: Sample, blind: bool, store: Callable[[bytes], str]) -> Iterator[dict[str, Any]]:
    from orchestrator.run.placeholders import walk
    from orchestrator.run_folder.records import request_json, scoring_json
    from orchestrator.samples import Call

    for turn, call in walk(sample, blind=blind):
        scoring = scoring_json(turn.scoring) or {}
        targets = scoring.get("targets", [])
        line = {
            "key": sample.item_key(turn),
            "task": task,
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
