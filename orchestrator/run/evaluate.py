"""One evaluation, in the order it happens: servers, run folder, engine, results, report."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import keep_freed_memory
from lyncean.rpc.budget import Budget
from orchestrator.engine import Engine, Ledger, Options
from orchestrator.engine.accounting import Accounting
from orchestrator.engine.deviations import Deviations
from orchestrator.engine.ledger import LEAST_DISK_SECONDS
from orchestrator.errors import IncompleteError, StoppedError
from orchestrator.run import foreign, results as run_results, resume, tools
from orchestrator.run.arguments import shard_of, words_of
from orchestrator.run.capabilities import check_capabilities
from orchestrator.run.checks import check, check_limits
from orchestrator.run.local_scorer import MOST_ITEMS, LocalChannel, local_scorer
from orchestrator.run.local_server import LocalServers
from orchestrator.run.part import part_of
from orchestrator.run.plan import Plan, make
from orchestrator.run.preflight import check_scoring
from orchestrator.run.progress import Progress
from orchestrator.run.request import RunRequest
from orchestrator.run.servers import Connections, Guard, Targets, connect, raced
from orchestrator.run_folder import manifest as run_manifest, origins, remote
from orchestrator.run_folder.cut import FINISH_CUT
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.finished import put_aside
from orchestrator.run_folder.lines import identity_hash
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.usage import of_log, total

_PREPARES_AFTER = 1.0
"""Seconds after which a run that lasts imports what its report needs."""
_YOUNG_OBJECTS = 10_000
"""After so many more new objects than freed ones the garbage collector looks at the new ones."""


class Reporting(Protocol):
    """Writes the report of a run and prints its results."""

    def prepare(self) -> None:
        """Imports what it needs; called in a thread while the model works."""

    def finish(self, run: Path, console: Console) -> None:
        """Writes a complete run's report and prints its results."""


async def run(request: RunRequest, console: Console, reporting: Reporting) -> Path:
    """Runs a request and returns its run folder, complete and with its report.

    Args:
        request: The run.
        console: Shows progress and results.
        reporting: Writes the report and prints the results.

    Raises:
        EngineError: If it stopped early; `exit_code` says what that means.
        DataError: If data cannot be used.
        RunLogError: If the run folder cannot be used.
        ManifestError: If it is another command's.
        LimitError: If more items than allowed have no result.
    """
    return await run_plan(planned(request), console, reporting)


def planned(request: RunRequest) -> Plan:
    """Returns the plan of a request all of whose parameters were looked at.

    Raises:
        ConfigError: If the request contradicts itself.
        DataError: If data cannot be used.
    """
    # What these refuse is refused before any data is read.
    shard_of(request.shard)
    Targets.of(request)
    if _has_prices(request):
        from orchestrator.run import prices  # YAML and its schema

        prices.table_of(request)
    return make(request)


def _has_prices(request: RunRequest) -> bool:
    return request.prices is not None or request.max_cost is not None


async def run_plan(
    plan: Plan,
    console: Console,
    reporting: Reporting,
    *,
    local: LocalServers | None = None,
) -> Path:
    """Runs a plan as `run` does its request.

    Args:
        plan: Tasks and samples; its request says how to run them.
        console: Shows progress and results.
        reporting: Writes the report and prints the results.
        local: Servers of our own that outlive the run; None ends them with it.
    """
    request = plan.request
    with remote.writing(request.run) as (folder, guards):
        async with _prepared(reporting):
            path = await evaluate(plan, console, reporting, run=folder, beside=guards, local=local)
        reporting.finish(path, console)
    check(path, request)
    return path


@contextlib.asynccontextmanager
async def _prepared(reporting: Reporting) -> AsyncIterator[None]:
    """Imports what the report needs in a thread while the model works: afterwards nothing waits for it but people."""

    async def later() -> None:
        await asyncio.sleep(_PREPARES_AFTER)
        await asyncio.to_thread(reporting.prepare)

    preparing = asyncio.create_task(later())
    try:
        yield
    finally:
        preparing.cancel()
        await asyncio.gather(preparing, return_exceptions=True)


def dry_run(request: RunRequest, console: Console) -> None:
    """Prints what a request would send.

    Raises:
        ConfigError: If the request contradicts itself.
        DataError: If data cannot be read.
    """
    from orchestrator.run.dry_run import describe

    describe(planned(request), console)


async def evaluate(
    plan: Plan,
    console: Console,
    reporting: Reporting | None = None,
    *,
    run: Path | None = None,
    beside: Sequence[Guard] = (),
    local: LocalServers | None = None,
) -> Path:
    """Runs a plan and returns its run folder, complete and with its results.

    Args:
        plan: Tasks and samples; its request says how to run them.
        console: Shows progress.
        reporting: Writes the report of a run of which items failed; None writes none.
        run: The run folder; None takes the one that the plan names.
        beside: Coroutines that run at the same time and end the run by raising.
        local: Servers of our own that outlive the run; None ends them with it.

    Raises:
        EngineError: If it stopped early; `exit_code` says what that means.
        RunLogError: If the run folder cannot be used.
        ManifestError: If it is another command's.
    """
    keep_freed_memory()
    request = plan.request
    if plan.play and not plan.play.servers and tools.endpoints_of(plan.play.names):
        notify = partial(console.print, style="dim", highlight=False, markup=False, soft_wrap=True)
        async with tools.connected(plan.play, request, notify) as play:
            return await evaluate(replace(plan, play=play), console, reporting, run=run, beside=beside, local=local)
    shard = shard_of(request.shard)
    budget = Budget(
        max_tokens=request.max_tokens_total,
        max_cost=request.max_cost,
        max_per_second=request.max_requests_per_second,
        deadline=request.deadline,
    )
    part = part_of(plan)
    expected = part.expected
    if run:
        _check_folder(run, plan, part.identity, shard)
    async with connect(request, console, local, _scorer_here(plan, expected)) as connections:
        models = {name: pool.info for name, pool in connections.pools.items()}
        places = {name: ", ".join(map(str, pool.endpoints)) for name, pool in connections.pools.items()}
        check_capabilities(plan, models, places)
        for sentence in plan.advice(connections.info):
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
        money = {}
        if _has_prices(request):
            from orchestrator.run import prices

            money = prices.priced(request, connections.info.model_name, budget)
        await check_scoring(plan, connections.scorer, connections.rules)
        changes = plan.changes(connections.info, models)
        stages = {name: info for name, info in models.items() if name}
        identity = plan.identity(connections.info, stages) | part.identity
        path = run or default_run(plan, identity, shard)
        log = RunLog(path, expected or 0)
        disk = connections.waits.add(f"the disk of {path}", max(request.patience, LEAST_DISK_SECONDS))
        try:
            accounting = Accounting(expected=expected)
            ledger = Ledger(log, accounting, budget, part.stopping, disk=disk)
            manifest = await _manifest(plan, connections, identity, stages, changes, shard, path, console, ledger)
            recorded = foreign.recorded(words_of(request.include_path), trusted=request.trust_task_code)
            recorded |= (cell := foreign.fenced(manifest, connections.rules))
            for layers in cell.values():
                console.print(f"cell: {layers}", style="dim", highlight=False)
            manifest = {**manifest, "expected": accounting.expected, **recorded, **money}
            await ledger.on_disk(partial(run_manifest.write, path / MANIFEST, manifest))
            if (budget.max_tokens, budget.max_cost) != (None, None):
                budget.used(*total(of_log(path)).tokens)
            changes = replace(changes, finish_cut=manifest.get(FINISH_CUT, 0))
            servers = plan.play.servers if plan.play else ()
            options = Options(request.timeout, request.patience, changes, shard, request.repeats, servers)
            for server in servers:
                connections.waits.also(server.says)
            pools, scorer = connections.pools, connections.scorer
            if not stages:
                pools[""].endpoint_model = origins.first(path, manifest["model"])
            await ledger.on_disk(partial(part.begin, path))
            part.load(log, identity, accounting)
            engine = Engine(part.samples(), ledger, pools, scorer, options)
            connections.waits.also(lambda: engine.pause)
            with contextlib.closing(part), _few_collections(), _signals(engine, console):
                async with Progress(console, accounting, connections.waits):
                    await raced(engine.run(), *(guard() for guard in (*connections.guards, *beside)))
            await ledger.sync()
            log.forget_index()
            planned = {task: count.planned for task, count in accounting.tasks.items()}
            finished = await ledger.reading(partial(part.finish, path, planned))
            manifest = {**manifest, **finished, "replicas": _replicas(manifest, connections)}
            manifest.pop(resume.ASKED_AGAIN, None)
            await ledger.on_disk(partial(run_manifest.write, path / MANIFEST, manifest))
            own = None if (targets := Targets.of(request)).scorer or targets.scoring else connections.rules
            results = await run_results.keep_or_write(path, manifest, scorer, ledger, own)
        finally:
            log.close()
    if accounting.unfinished:
        raise IncompleteError(
            f"{accounting.unfinished:,} cut answers could not be finished; run the same command again to finish them"
        )
    failed = run_results.failed(results)
    if failed:
        if reporting:
            reporting.finish(path, console)
        check_limits(path, request)
        raise IncompleteError(f"{failed:,} items failed after retries; run the same command again to ask them again")
    return path


def _scorer_here(plan: Plan, expected: int | None) -> LocalChannel | None:
    """Returns a scorer within this process where the run is small and names no scorer or judge of its own."""
    targets = Targets.of(plan.request)
    if targets.scorer or targets.judge or expected is None or expected > MOST_ITEMS:
        return None
    return local_scorer({spec.metric for specs in plan.metrics().values() for spec in specs})


def _check_folder(run: Path, plan: Plan, of_part: Mapping[str, Any], shard: tuple[int, int] | None) -> None:
    """Refuses another command's folder before a model is loaded for it, as far as that tells without the model."""
    if not (run / MANIFEST).exists():
        return
    there = run_manifest.read(run)
    known = {**plan.identity(model.GetModelInfoResponse(), {}), **of_part}
    unknown = {"model", "stages", *tools.identity_of(plan.play)}
    mine, theirs = (
        {name: value for name, value in record.items() if name not in unknown} for record in (known, there["identity"])
    )
    run_manifest.check_same(run, {**there, "identity": theirs}, mine, shard)


def default_run(plan: Plan, identity: Mapping[str, Any], shard: tuple[int, int] | None) -> Path:
    """Returns the folder that this command, and no other, writes to."""
    names = plan.names[0] if len(plan.names) == 1 else f"{plan.names[0]}+{len(plan.names) - 1}"
    parts = (names, identity["model"]["model_name"], plan.method, identity_hash(identity)[:8])
    name = "-".join("".join(c if c.isalnum() or c in "._+" else "_" for c in word) for word in parts)
    return Path("runs") / (f"{name}-{shard[0]}of{shard[1]}" if shard else name)


async def _manifest(
    plan: Plan,
    connections: Connections,
    identity: Mapping[str, Any],
    stages: Mapping[str, model.GetModelInfoResponse],
    changes: Deviations,
    shard: tuple[int, int] | None,
    path: Path,
    console: Console,
    ledger: Ledger,
) -> Mapping[str, Any]:
    """Writes the manifest of a new run, or holds this command against that of an old one."""
    file, log = path / MANIFEST, ledger.log
    fresh = run_manifest.make(
        identity,
        info=connections.info,
        stages=stages,
        replicas=sorted(connections.pools[""].replicas),
        rules=connections.rules,
        metrics=plan.metrics(),
        groups=plan.groups(),
        shard=shard,
        code=plan.code(),
    )
    if finish := plan.request.finish_cut:
        fresh[FINISH_CUT] = finish
    if not file.exists():
        if log.resumed:
            raise run_manifest.ManifestError(f"{path} holds answers and no {MANIFEST}: give --run another folder")
        await ledger.on_disk(partial(run_manifest.write, file, fresh))
        return fresh
    old = run_manifest.read(path)
    tools.check_unchanged(path, old["identity"], identity)
    run_manifest.check_same(path, old, identity, shard)
    if resume.never_asked(path, old):
        old[resume.ASKED_AGAIN] = True
        log.forget_rejected()
    log.forget_mistakes()
    if resume.code_of(old) != fresh["benchmarks"]:
        resume.check_asked(plan, log, shard, changes)
        same = "the benchmark's code has changed since, and asks the same of what was answered"
        console.print(same, style="dim", soft_wrap=True)
        old["benchmarks_resumed"] = fresh["benchmarks"]
    changed = resume.scored_otherwise(old, fresh)
    if changed:
        anew = f"{changed}: every answer is scored anew"
        console.print(anew, style="dim", highlight=False, markup=False, soft_wrap=True)
        log.forget_verdicts()
        old |= {name: fresh[name] for name in ("rules", "scorer", "judges")}
    old["replicas"] = _replicas(old, connections)
    old |= {name: fresh[name] for name in ("metrics", "groups")}
    if finish := max(old.get(FINISH_CUT, 0), fresh.get(FINISH_CUT, 0)):
        old[FINISH_CUT] = finish
    await ledger.on_disk(partial(run_manifest.write, file, old))
    put_aside(path)
    return old


def _replicas(manifest: Mapping[str, Any], connections: Connections) -> list[str]:
    """Returns the replicas of every attempt at the run."""
    return sorted({*manifest["replicas"], *connections.pools[""].replicas})


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Freezes live objects and raises the GC threshold while requests are in flight."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def _signals(engine: Engine, console: Console) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM drains, the second stops."""
    draining = False

    def stop() -> None:
        nonlocal draining
        if draining:
            engine.ledger.stop(IncompleteError("stopped; run the same command again to resume"))
            return
        draining = True
        remote.grace.end_soon()
        console.print("stopping: finishing requests in flight; interrupt again to stop at once", style="dim")
        engine.stop_soon("stopped; run the same command again to resume")

    loop = asyncio.get_running_loop()
    # Signals reach the main thread alone; beside a notebook's own loop there are none to handle.
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = signal.getsignal(signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    except IncompleteError as error:
        if draining:
            raise StoppedError(str(error)) from error
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        if numbers:
            signal.signal(signal.SIGTERM, before)  # the loop leaves the default, which ends the process at once
