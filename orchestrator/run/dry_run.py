"""`--dry-run`: what a plan would send and at most cost, with no model in sight."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson
from PIL import Image
from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from lyncean.statistics import intervals as stats
from lyncean.vocabulary.keys import split_repeat
from orchestrator.data.rows import DataError
from orchestrator.engine.deviations import Deviations
from orchestrator.engine.wire import request_of
from orchestrator.run.part import part_of
from orchestrator.run.part.part import Part
from orchestrator.run.part.rule import CHANGED
from orchestrator.run.plan import Plan
from orchestrator.run_folder.records import request_json
from orchestrator.samples import Answer, BadRowError, Call, NoAnswerError, Sample, Turn

_BYTES_PER_TOKEN = 4
"""A rule of thumb for English text; what an image costs is the model's own affair and not guessed."""


@dataclass(slots=True)
class Size:
    """Summary of the requests of a plan.

    Attributes:
        total: Calls at least and at most, scored items, bytes, images, clips and text bytes of the first turns, most
            output tokens, calls without a bound of them, and rows that cannot be asked, by `calls`, `most_calls`,
            `items`, `bytes`, `images`, `clips`, `text`, `output`, `unbounded` and `rejected`.
        tasks: Samples of each task.
        groups: Names of the independent items or groups of each task.
        first: The first request, None without one.
    """

    total: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    groups: dict[str, set[str]] = field(default_factory=dict)
    first: dict[str, Any] | None = None

    @property
    def input_tokens(self) -> int:
        """Tokens of the first turns' text, by a rule of thumb; images are not guessed."""
        return self.total["text"] // _BYTES_PER_TOKEN

    @property
    def output(self) -> str:
        """The most output tokens, in words."""
        return _output_line(self.total["output"], self.total["unbounded"])


def measure(plan: Plan, part: Part | None = None) -> Size:
    """Builds every call, later turns with placeholders for the answers.

    Args:
        plan: The plan.
        part: Its samples that are asked; None asks all.

    Raises:
        DataError: If data cannot be read.
    """
    size = Size()
    total, tasks, groups, changes = size.total, size.tasks, size.groups, plan.changes()
    for sample in plan.samples():
        if part and not part.wanted(sample.key):
            continue
        task = sample.key.split("/", 1)[0]
        tasks[task] += 1
        total["calls"] += len(sample.turns)
        total["most_calls"] += sum(turn.play.max_calls if turn.play else 1 for turn in sample.turns)
        for turn in sample.turns:
            if turn.scoring is not None:
                total["items"] += 1
                groups.setdefault(task, set()).add(turn.scoring.group or split_repeat(sample.key)[0])
        for number, (turn, call) in enumerate(walk(sample, changes)):
            if isinstance(call, BadRowError):
                total["rejected"] += 1
            elif isinstance(call, NoAnswerError):
                total["unbounded"] += len(sample.turns) - number
            else:
                if not call.continuations:
                    bound, calls = call.config.max_output_tokens, turn.play.max_calls if turn.play else 1
                    total["output" if bound else "unbounded"] += (bound or 1) * calls
                if number == 0:
                    total.update(_sizes(call))
                if size.first is None:
                    size.first = request_json(call, lambda medium: f"({len(medium.data):,} bytes)")
    return size


def describe(plan: Plan, console: Console) -> None:
    """Prints what a plan would send: counts, sizes and the first request.

    Raises:
        DataError: If data cannot be read.
    """
    part = part_of(plan)
    size = measure(plan, part)
    total, groups = size.total, size.groups
    clips = f"{total['clips']:,} audio and video files, " if total["clips"] else ""
    lines = [
        ", ".join(f"{count:,} samples of {task}" for task, count in size.tasks.items()) or "nothing",
        f"{_span(total['calls'], total['most_calls'])} calls for {total['items']:,} scored items",
        f"first turns: {total['bytes']:,} bytes, {total['images']:,} images, {clips}"
        f"text of about {size.input_tokens:,} tokens",
        size.output,
        *(_power_line(task, len(keys)) for task, keys in groups.items()),
    ]
    if len(groups) > 1:
        lines.append(_power_line("all tasks", sum(len(keys) for keys in groups.values())))
    lines += part.outlook()
    if total["rejected"]:
        lines.append(f"{total['rejected']:,} rows cannot be asked and will be rejected")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
    if size.first is not None:
        shown = orjson.dumps(size.first, option=orjson.OPT_INDENT_2).decode()
        console.print(shown, highlight=False, markup=False, soft_wrap=True)


def _span(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _power_line(name: str, groups: int) -> str:
    """Says what the items can show; items of one group, and repeats, are taken for one as if they agreed."""
    half = 100 * (stats.wilson(groups / 2, groups)[1] - 0.5)
    paired, alone = stats.detectable_flips(CHANGED, groups), stats.detectable_shares(0.5, groups).fall
    return (
        f"{name}: {groups:,} independent items or groups, 95% CI ±{half:.1f} points at 50%; a fall found in 4 of 5 "
        f"cases: {_points(paired)} from a run on the same items (if {100 * CHANGED:.0f}% of the answers change), "
        f"{_points(alone)} from one on other items"
    )


def _points(difference: float | None) -> str:
    return "none" if difference is None else f"{100 * difference:.1f} points"


def _sizes(call: Call) -> Counter[str]:
    parts = [part for message in call.messages for part in message.parts]
    return Counter(
        bytes=request_of(call).size,
        images=sum(part.image is not None for part in parts),
        clips=sum(part.clip is not None for part in parts),
        text=sum(len(part.text.encode()) for part in parts),
    )


def _output_line(output: int, unbounded: int) -> str:
    without = f"{unbounded:,} calls set no bound" if unbounded else ""
    if output:
        return f"at most {output:,} output tokens" + (f", and {without}" if without else "")
    return f"{without} on their output tokens" if without else "no output tokens: nothing is generated"


def walk(sample: Sample, changes: Deviations) -> Iterator[tuple[Turn, Call | BadRowError | NoAnswerError]]:
    """Yields each turn with its call, or with why a run would not make it, after which no turn is asked.

    The placeholders are the text "{answer 1}" for the first turn's, a small grey image for a generated image, and
    log-likelihoods of 0.
    """
    answers: list[Answer] = []
    for turn in sample.turns:
        try:
            call = changes.first(turn, answers, sample.item_key(turn))
        except (BadRowError, NoAnswerError) as error:
            yield turn, error
            return
        except DataError as error:
            yield turn, BadRowError("unreadable_row", str(error))
            return
        yield turn, call
        answers.append(_stand_in(call, len(answers) + 1))


def _stand_in(call: Call, number: int) -> Answer:
    if call.continuations:
        return Answer(scores=tuple(model.ContinuationScore(token_count=1) for _ in call.continuations))
    if call.modality == model.MODALITY_IMAGE:
        return Answer(images=(model.Image(data=_grey(), media_type="image/png"),))
    return Answer(text=f"{{answer {number}}}")


@cache
def _grey() -> bytes:
    out = io.BytesIO()
    Image.new("L", (64, 64), 128).save(out, "PNG")
    return out.getvalue()
