"""`orchestrator import lmms-eval SAMPLES.jsonl`: an existing run of lmms-eval, in either reading."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from lyncean.rpc import PLAIN, Credentials
from lyncean.rpc.options import client_options
from orchestrator.cli.folders import RunFolder
from orchestrator.cli.outcome import guarded
from orchestrator.cli.unused import refuse_dialling

if TYPE_CHECKING:
    from orchestrator.benchmarks.base import Benchmark
    from orchestrator.interop.lmms_eval_samples import Taken
    from orchestrator.samples import Sample, Scoring, Variant


@click.command("lmms-eval")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--task", help="The task, where the file's name does not say it (DATE_samples_TASK.jsonl).")
@click.option("--data", help="The benchmark's data: gives options and categories that the samples lack.")
@click.option("--model", help="Name to file it under; default the name of the file's folder.")
@click.option(
    "--reading",
    type=click.Choice(["careful", "parity", "both"]),
    default="both",
    show_default=True,
    help="Read as a careful person would, as lmms-eval does, or both.",
)
@click.option("--run", type=RunFolder(), help="Run folder; default runs/FILE.")
@click.option("--scorer", "scorer_at", help="Scorer H:P; without it one is started.")
@client_options
def command(credentials: Credentials, path: Path, reading: str, scorer_at: str | None, **given: Any) -> None:
    """Score a samples file of lmms-eval (--log_samples) of V*-Bench or VisualPuzzles.

    The careful reading's figures are the run folder's, the parity reading's those of its folder
    `parity`. Requests that failed there count as failed in both, never as answers.
    """
    if not scorer_at:
        refuse_dialling("--scorer")

    async def work() -> Path:
        from orchestrator.cli.eval import one_endpoint
        from orchestrator.report.readings import described
        from orchestrator.run import evaluate, rescore
        from orchestrator.run.local_server import LocalServer

        run = given["run"] or Path("runs") / path.stem
        planned, theirs = take(path, run, task=given["task"], data=given["data"], model_name=given["model"])
        async with contextlib.AsyncExitStack() as stack:
            endpoint, security = one_endpoint(scorer_at), credentials
            if endpoint is None:
                endpoint, security = await stack.enter_async_context(LocalServer("scorer")), PLAIN
            for name in ("careful", "parity") if reading == "both" else (reading,):
                async with evaluate.connect_scorer(endpoint, security, 600.0) as (client, rules):
                    scored = await rescore.rescore(run, client, rules, parity=name == "parity")
                click.echo(f"{name:<8} {_figures(scored)}")
                evaluate.finish(scored, Console(quiet=True, markup=False))
        click.echo(f"theirs   {_theirs(theirs, planned)}")
        if reading == "both":
            click.echo("\n".join(described(run)))
        click.echo(f"run: {run}")
        return run

    sys.exit(guarded(work)[1])


def take(
    path: Path, run: Path, *, task: str | None, data: str | None, model_name: str | None
) -> tuple[int, list[float]]:
    """Writes a run folder of a samples file's answers, not scored yet.

    Returns:
        How many samples there are, and what lmms-eval scored them, where it says.

    Raises:
        DataError: The file or the data cannot be used, or do not belong together.
        RunLogError: The run folder is in use, or cannot be made.
    """
    import orjson

    from lyncean.model.v1 import model_pb2 as model
    from lyncean.scorer.v1 import scorer_pb2 as scorer
    from orchestrator.benchmarks.registry import UnknownTaskError, find
    from orchestrator.data.digest import digest_files
    from orchestrator.data.rows import DataError
    from orchestrator.interop import lmms_eval_samples as samples
    from orchestrator.run_folder import manifest as run_manifest
    from orchestrator.run_folder.log import RESPONSES, Appender, RunLogError, write_error
    from orchestrator.samples import Variant

    name = samples.task_of(path, task)
    try:
        benchmark = find([name])[name]
    except (UnknownTaskError, KeyError) as error:
        raise DataError(f"{path.name} is of {name}, which is none of our tasks: give --task") from error
    variant = Variant(name, settings=benchmark.settings())
    known = dict(enumerate(_samples(benchmark, variant, data))) if data else {}
    taken = list(samples.read(path, name))
    if data:
        _check_fits(data, known, taken)
    if (run / RESPONSES).exists():
        raise RunLogError(f"{run} holds a run already: give --run another folder")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(run, error) from error
    log = Appender(run / RESPONSES)
    try:
        for one in taken:
            log.add(orjson.dumps(_line(name, one, known.get(one.number))))
            log.flush()
    finally:
        log.close()
    info = model.GetModelInfoResponse(model_name=model_name or path.resolve().parent.name, server_version="lmms-eval")
    identity = {
        "tasks": [name],
        "method": "generate",
        "imported": "lmms-eval",
        "data": {name: {"origin": path.name, "sha256": digest_files([(path.name, path)])}},
        "model": run_manifest.model_identity(info),
        "stages": {},
    }
    manifest = run_manifest.make(
        identity,
        info=info,
        stages={},
        replicas=[],
        rules=scorer.ListRulesResponse(),
        metrics={name: list(benchmark.metrics(variant))},
        shard=None,
        code={},
    )
    run_manifest.write(run / run_manifest.MANIFEST, manifest | {"planned": {name: len(taken)}})
    return len(taken), [one.score for one in taken if one.score is not None]


def _samples(benchmark: Benchmark, variant: Variant, data: str) -> Iterator[Sample]:
    """Yields each row's sample, in the order of the rows, which doc_id counts."""
    rows = benchmark.rows(variant.task, data)
    return itertools.chain.from_iterable(benchmark.samples(row, variant) for row in rows)


def _judged(sample: Sample | None) -> Scoring | None:
    return sample.turns[-1].scoring if sample else None


def _check_fits(data: str, known: Mapping[int, Sample], taken: Sequence[Taken]) -> None:
    """Makes sure that the samples are of these rows: others' options would be read into the answers.

    Raises:
        DataError: A sample has no row, or the row's answer is not the sample's.
    """
    from orchestrator.data.rows import DataError

    for one in taken:
        found = _judged(known.get(one.number))
        if found is None or found.targets != (one.target,):
            there = "there is no such row" if found is None else f"that row's is {' or '.join(found.targets)}"
            raise DataError(
                f"--data {data} is not what these samples were asked from: the right answer to doc_id {one.number} is "
                f"{one.target or 'empty'}, {there}; give the same data in its own order, or leave --data out"
            )


def _line(task: str, taken: Taken, sample: Sample | None) -> dict[str, Any]:
    known = _judged(sample)
    options = known.options if known else taken.options
    # The reference drops options that hold parentheses; then the letters of the rest are not the data's.
    if taken.target not in "ABCD"[: len(options)]:
        options = ()
    labels: Mapping[str, str] = known.labels if known else taken.labels
    line: dict[str, Any] = {
        # As a run of ours names it, so that the two compare; without the data by its row.
        "key": sample.item_key(sample.turns[-1]) if sample else f"{task}/{taken.number}",
        **({"outcome": "failed"} if taken.failed else {}),
        "sample": sample.key if sample else f"{task}/{taken.number}",
        "turn": sample.turns[-1].name if sample else "",
        "task": task,
        "method": "generate",
        "request": {"messages": [{"role": "ROLE_USER", "parts": [{"text": taken.prompt}]}]},
        "scoring": {
            "rule": "choice",
            "targets": [taken.target],
            "options": list(options),
            "params": {} if options else {"count": 4},
            "labels": dict(labels),
            "group": "",
        },
        "attempts": 1,
    }
    if taken.failed:
        line["error"] = {"code": "", "reason": "request_failed", "message": taken.failed}
    else:
        line["response"] = {"parts": [{"text": taken.text}], "finish_reason": "FINISH_REASON_UNSPECIFIED"}
    return line


def _figures(scored: Path) -> str:
    import orjson

    from orchestrator.run.results import RESULTS

    (task,) = orjson.loads((scored / RESULTS).read_bytes())["tasks"].values()
    counts = ", ".join(f"{number} {name}" for name, number in task["counts"].items() if number and name != "planned")
    values = [
        f"{' '.join(figure['labels'].values()) or 'accuracy'} {figure['value']:.2f}"
        for figure in task["figures"]
        if figure["name"] == "accuracy" and figure["value"] is not None
    ]
    return f"{', '.join(values)} (percent of all; {counts})"


def _theirs(scores: list[float], planned: int) -> str:
    if not scores:
        return "the file holds no scores"
    mean = f"accuracy {100 * sum(scores) / len(scores):.2f}"
    return mean if len(scores) == planned else f"{mean} over the {len(scores)} of {planned} samples that have a score"
