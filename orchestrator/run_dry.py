"""`--dry-run`: what a plan would send and at most cost, with no model in sight."""

from __future__ import annotations

from collections import Counter

import orjson
from rich.console import Console

from orchestrator.engine.wire import request_of
from orchestrator.images import blinded
from orchestrator.keytable import shard_of
from orchestrator.run_plan import Plan
from orchestrator.run_records import request_json
from orchestrator.samples import BadRowError

_BYTES_PER_TOKEN = 4
"""A rule of thumb for English text; what an image costs is the model's own affair and not guessed."""


def describe(plan: Plan, shard: tuple[int, int] | None, console: Console) -> None:
    """Builds every first turn, as a run would, and prints counts, sizes and the first request.

    Raises:
        DataError: If data cannot be read.
    """
    total: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    first = None
    for sample in plan.samples():
        if shard and shard_of(sample.key, shard[1]) != shard[0]:
            continue
        tasks[sample.key.split("/", 1)[0]] += 1
        total["calls"] += len(sample.turns)
        total["items"] += sum(turn.scoring is not None for turn in sample.turns)
        try:
            call = sample.turns[0].ask(())
            call = blinded(call) if plan.blind else call
        except BadRowError:
            total["rejected"] += 1
            continue
        total["bytes"] += request_of(call).size
        parts = [part for message in call.messages for part in message.parts]
        total["images"] += sum(part.image is not None for part in parts)
        total["text"] += sum(len(part.text.encode()) for part in parts)
        if not call.continuations:
            total["output"] += call.config.max_output_tokens * len(sample.turns)
        if first is None:
            first = request_json(call, lambda data: f"({len(data):,} bytes)")
    lines = [
        ", ".join(f"{count:,} samples of {task}" for task, count in tasks.items()) or "nothing",
        f"{total['calls']:,} calls for {total['items']:,} scored items",
        f"first turns: {total['bytes']:,} bytes, {total['images']:,} images, "
        f"text of about {total['text'] // _BYTES_PER_TOKEN:,} tokens",
        f"at most {total['output']:,} output tokens" if total["output"] else "no output tokens are bounded by requests",
    ]
    if total["rejected"]:
        lines.append(f"{total['rejected']:,} rows cannot be asked and will be rejected")
    for line in lines:
        console.print(line, highlight=False)
    if first is not None:
        console.print(orjson.dumps(first, option=orjson.OPT_INDENT_2).decode(), highlight=False, markup=False)
