"""`scorer calibrate`: how far a judge can be trusted."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

import click

from scorer.cli.options import UsageExit
from scorer.judges.calibration import SETS, Calibration, calibrate, cases
from scorer.judges.options import Judging, judge_options, opened


@click.command("calibrate")
@click.option("--set", "names", multiple=True, type=click.Choice(sorted(SETS)), help="Which cases; default all.")
@click.option("--cases", "file", type=click.Path(exists=True, path_type=Path), help="Your own cases for one --set.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a set.")
@judge_options
def command(names: tuple[str, ...], file: Path | None, as_json: bool, judging: Judging) -> None:
    """Run the judge on labelled cases and report how often it agrees.

    The shipped cases cover the reading of choices, open answers and VOILA's steps. Cases of
    your own are JSON lines like the shipped ones, each with the `expected` reply.

    The result for the shipped cases is kept in the cache: runs scored by this judge name it.
    """
    if file and len(names) != 1:
        raise click.UsageError("--cases needs one --set that says what they are cases of")
    judges = opened(judging)
    if judges is None:
        raise click.UsageError("there is no judge to calibrate: give --judge SPEC")

    async def run() -> list[Calibration]:
        try:
            found = [await calibrate(judges.judge, name, _cases(name, file)) for name in names or sorted(SETS)]
            for done in found if file is None else ():
                judges.cache.calibrated(judges.spec, done.name, done.agreed, done.decisions)
            return found
        finally:
            await judges.close()

    for done in asyncio.run(run()):
        if as_json:
            click.echo(json.dumps(dataclasses.asdict(done), ensure_ascii=False))
            continue
        share = 100 * done.agreed / done.decisions
        click.echo(
            f"{done.name}: agrees with {done.agreed} of {done.decisions} decisions, {share:.1f}% "
            f"[{100 * done.low:.1f}, {100 * done.high:.1f}], Cohen's kappa {done.kappa:.2f}"
            + (f", {done.failed} without a reply" if done.failed else "")
        )
        for wrong in done.disagreements:
            click.echo(f"  {json.dumps(wrong.case, ensure_ascii=False)}\n    the judge: {wrong.said}")


def _cases(name: str, file: Path | None) -> list[dict[str, object]]:
    if file is None:
        return [dict(case) for case in cases(name)]
    found = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            found.append(json.loads(line))
            SETS[name](found[-1])
            found[-1]["expected"]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageExit(f"{file}, line {number}: no case of {name!r}: {error!r}") from error
    return found
