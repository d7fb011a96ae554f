"""`scorer calibrate`: measures how far a judge can be trusted."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lyncean.cli import Command
from lyncean.errors import UserError
from scorer.cli.options import judge_options
from scorer.cli.waiting import periodic_line

if TYPE_CHECKING:
    from scorer.calibration import Calibration
    from scorer.judges.base import JudgeError
    from scorer.judges.options import Judging

NAMES = ("choice_reread", "open_answer", "voila")
"""The sets of `scorer.calibration`."""


@click.command("calibrate", cls=Command)
@click.option("--set", "names", multiple=True, type=click.Choice(NAMES), help="Calibration set; default: all.")
@click.option(
    "--cases", "file", type=click.Path(exists=True, path_type=Path), help="File with your own cases for one --set."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per set.")
@judge_options
def command(names: tuple[str, ...], file: Path | None, as_json: bool, judging: Judging) -> None:
    """Run the judge on labelled cases and report how often it agrees.

    The shipped cases cover choice extraction, open answers and VOILA's steps. Cases of
    your own are JSON lines like the shipped ones, each with the `expected` reply.

    The result for the shipped cases is kept in the cache; runs scored by this judge name it.
    """
    from scorer.calibration import calibrate
    from scorer.judges.base import JudgeError
    from scorer.judges.cache import Cache
    from scorer.judges.keeping import CacheLost

    if file and len(names) != 1:
        raise click.UsageError("--cases needs one --set that says what they are cases of")
    judges = judging.open()
    if judges is None:
        raise click.UsageError("no judge to calibrate: give --judge SPEC")

    labelled = {name: _cases(name, file) for name in names or NAMES}
    replied = 0
    total = sum(map(len, labelled.values()))
    # A batch of two cases takes as long as one of all.
    within = None if judging.batched else judging.timeout

    def on_reply() -> None:
        nonlocal replied
        replied += 1

    def progress() -> str:
        why = judges.judge.waits_for
        return f"{replied} of {total} cases replied to; waiting for {judges.spec}" + (f": {why}" if why else "")

    async def run() -> bool:
        complete = True
        try:
            async with periodic_line(progress):
                for name, labels in labelled.items():
                    calibration = await calibrate(judges.judge, name, labels, within, on_reply)
                    _report(calibration, as_json)
                    complete &= not calibration.unasked
                    if file is None and not calibration.unasked:
                        measured = partial(
                            Cache.calibrated,
                            spec=judges.spec,
                            cases=name,
                            agreed=calibration.agreed,
                            decisions=calibration.decisions,
                        )
                        judges.cache.call(measured)
            return complete
        finally:
            await judges.close()

    try:
        complete = asyncio.run(run())
    except JudgeError as error:
        raise JudgeUnavailable(f"{judges.spec} does not reply: {error}; {_fix(error)}") from error
    except CacheLost as error:
        raise JudgeUnavailable(f"{error}; the same command again goes on") from error
    if not complete:
        raise JudgeUnavailable(
            "not every case got a reply, so this is not kept; the same command again asks only for those"
        )


class JudgeUnavailable(UserError):
    """A judge that replied to no case, or not to all; the same command may be tried again."""

    exit_code = 3


def _fix(error: JudgeError) -> str:
    """Returns the advice for a judge that does not reply, by the reason of its failure."""
    fixes = {
        "judge_budget": "allow it more",
        "judge_rate_limited": "try again later",
        "judge_error": "look at the model's name, the key and the address in --judge openai:MODEL@URL",
        "judge_timeout": "is that the address of a judge? --judge-timeout SECONDS gives it longer",
    }
    return fixes.get(error.reason, "is it running there? --judge openai:MODEL@URL or grpc:HOST:PORT says where")


def _report(result: Calibration, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(result), ensure_ascii=False))
        return
    share = 100 * result.agreed / result.decisions
    kappa = "undefined" if result.kappa is None else f"{result.kappa:.2f}"
    interval = (
        "" if result.low is None or result.high is None else f" [{100 * result.low:.1f}, {100 * result.high:.1f}]"
    )
    click.echo(
        f"{result.name}: agrees with {result.agreed} of {result.decisions} decisions, {share:.1f}%{interval}, "
        f"Cohen's kappa {kappa}" + (f", {result.failed} without a usable reply" if result.failed else "")
    )
    for wrong in result.disagreements:
        click.echo(f"  {json.dumps(wrong.case, ensure_ascii=False)}\n    the judge: {wrong.said}")


def _cases(name: str, file: Path | None) -> list[dict[str, object]]:
    from scorer.calibration import SETS, cases

    if file is None:
        return [dict(case) for case in cases(name)]
    labelled = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            labelled.append(json.loads(line))
            SETS[name](labelled[-1])
            labelled[-1]["expected"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file}, line {number}: no case of {name!r}: {error!r}") from error
    if not labelled:
        raise UserError(f"{file} holds no case: write one a line")
    return labelled
