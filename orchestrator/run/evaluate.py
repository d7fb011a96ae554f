"""One evaluation from end to end: servers, run folder, engine, figures, report."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, Credentials, keep_freed_memory
from lyncean.scorer.v1 import scorer_pb2
from orchestrator.engine import Budget, Endpoint, Engine, IncompleteError, Options, Pool, ScorerClient
from orchestrator.engine.accounting import Accounting
from orchestrator.engine.pool import Notify
from orchestrator.run import plan as run_plan
from orchestrator.run import results as run_results
from orchestrator.run import resume
from orchestrator.run.local_server import LocalServer
from orchestrator.run.plan import Plan
from orchestrator.run.preflight import check_scoring
from orchestrator.run.progress import Progress
from orchestrator.run_folder import manifest as run_manifest
from orchestrator.run_folder.files import MANIFEST, RESULTS, VERDICTS
from orchestrator.run_folder.lines import JudgedLine
from orchestrator.run_folder.log import RunLog, scan
from orchestrator.run_folder.planned_rows import PlannedRows
from orchestrator.run_folder.records import tokens_of_log

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Whom to ask.

    Attributes:
        endpoints: Model servers; empty starts one for `model`.
        stages: Model servers of further stages by name.
        scorer: The scorer; None starts one.
        model: What the embedded model server serves: "demo", the small model that comes along; "demo:hash"
            and "demo:constant:TEXT", which have no weights; a folder or a hub id.
        credentials: How to dial whatever is not embedded.
        concurrency: Calls in flight per replica; None takes what each asks for.
        judge: What follows `scorer serve` where a scorer is started, to give it a judge.
    """

    endpoints: Sequence[Endpoint] = ()
    stages: Mapping[str, Sequence[Endpoint]] = field(default_factory=dict)
    scorer: Endpoint | None = None
    model: str = "demo"
    credentials: Credentials = PLAIN
    concurrency: int | None = None
    judge: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Servers:
    """Everybody who is asked, connected."""

    pools: Mapping[str, Pool]
    scorer: ScorerClient
    rules: scorer_pb2.ListRulesResponse
    guards: Sequence[Callable[[], Coroutine[Any, Any, None]]]

    @property
    def info(self) -> model.GetModelInfoResponse:
        """The model under evaluation."""
        return self.pools[""].info


async def evaluate(
    plan: Plan,
    where: Where,
    options: Options,
    budget: Budget,
    *,
    run: Path | None,
    console: Console,
    beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> Path:
    """Runs a plan and returns its run folder, complete and with its figures.

    Args:
        plan: What to ask.
        where: Whom to ask.
        options: How to run.
        budget: What may be spent.
        run: The run folder; None takes the one that the plan names.
        console: Where progress is shown.
        beside: What runs beside it, and ends it by raising.

    Raises:
        EngineError: If it stopped early; `exit_code` says what that means.
        RunLogError: If the run folder cannot be used.
        ManifestError: If it is another command's.
    """
    keep_freed_memory()
    async with connect(where, options.patience, console) as servers:
        models = {name: pool.info for name, pool in servers.pools.items()}
        places = {name: ", ".join(map(str, pool.endpoints)) for name, pool in servers.pools.items()}
        run_plan.check_capabilities(plan, models, places)
        await check_scoring(plan, servers.scorer, servers.rules)
        stages = {name: pool.info for name, pool in servers.pools.items() if name}
        identity = plan.identity(servers.info, stages)
        path = run or default_run(plan, identity, options.shard)
        log = RunLog(path)
        try:
            accounting = Accounting(expected=_expected(plan, options.shard))
            manifest = _manifest(plan, servers, identity, stages, options, path, log, console)
            manifest = {**manifest, "expected": accounting.expected}
            run_manifest.write(path / MANIFEST, manifest)
            if budget.counts_tokens:
                budget.used(tokens_of_log(path))
            known = PlannedRows(log, plan.name_of_samples(identity), plan.names, accounting, options.shard)
            with contextlib.closing(known), _few_collections():
                engine = Engine(plan.samples(known), log, servers.pools, servers.scorer, accounting, options, budget)
                async with Progress(console, accounting), _signals(engine, console):
                    await raced(engine.run(), *(guard() for guard in (*servers.guards, *beside)))
            log.forget_index()
            planned = {task: count.planned for task, count in accounting.tasks.items()}
            manifest = {**manifest, "planned": planned, "replicas": _replicas(manifest, servers)}
            run_manifest.write(path / MANIFEST, manifest)
            results = await run_results.write(path, manifest, servers.scorer)
        finally:
            log.close()
    failed = run_results.failed(results)
    if failed:
        finish(path, console)
        raise IncompleteError(f"{failed:,} items failed after retries; run the same command again to ask them again")
    return path


def finish(run: Path, console: Console) -> None:
    """Writes a complete run's report and prints its figures."""
    from orchestrator.report import write_report
    from orchestrator.report.terminal import print_results

    report = write_report(run)
    if not console.quiet:
        print_results(run, console)
        for line in judges_said(run):
            console.print(line, highlight=False, soft_wrap=True)
        console.print(f"report: {report}", highlight=False, soft_wrap=True)


def judges_said(run: Path) -> list[str]:
    """Returns what there is to say of a run's judges: how much they were asked, what came of it, what to do."""
    judges = run_manifest.read(run).get("judges")
    if not judges:
        return []
    asked, why = 0, ""
    for _, line in scan(run / VERDICTS, JudgedLine):
        asked += line.judged
        if line.outcome == "unjudged":
            why = line.detail
    names = ", ".join(judges)
    said = [f"judge {names}: {asked:,} verdicts" if asked else f"judge {names}: configured and never needed"]
    tasks = run_results.read(run)["tasks"].values()
    unjudged = sum(task["counts"]["unjudged"] for task in tasks)
    if unjudged and why:
        said.append(
            f"{unjudged:,} of them unjudged, the last because {why}; orchestrator score {run} asks again for these"
        )
    return said


def default_run(plan: Plan, identity: Mapping[str, Any], shard: tuple[int, int] | None) -> Path:
    """Returns the folder that this command, and no other, writes to."""
    names = plan.names[0] if len(plan.names) == 1 else f"{plan.names[0]}+{len(plan.names) - 1}"
    words = (names, identity["model"]["model_name"], plan.method, run_manifest.identity_hash(identity)[:8])
    name = "-".join("".join(c if c.isalnum() or c in "._+" else "_" for c in word) for word in words)
    return Path("runs") / (f"{name}-{shard[0]}of{shard[1]}" if shard else name)


@contextlib.asynccontextmanager
async def connect(where: Where, patience: float, console: Console) -> AsyncIterator[Servers]:
    """Starts what is embedded, reaches everybody, and lets go of all of it in the end."""

    def notify(line: str) -> None:
        console.print(line, style="dim", highlight=False, soft_wrap=True)

    def pool(endpoints: Sequence[Endpoint], credentials: Credentials) -> Pool:
        return Pool(endpoints, credentials, concurrency=where.concurrency, patience=patience, notify=notify)

    async with contextlib.AsyncExitStack() as stack:
        guards: list[Callable[[], Coroutine[Any, Any, None]]] = []

        async def models() -> dict[str, Pool]:
            endpoints, credentials, embedded = where.endpoints, where.credentials, None
            if not endpoints:
                embedded = LocalServer("model_server", _serve_arguments(where.model))
                endpoints, credentials = [await stack.enter_async_context(embedded)], PLAIN
                guards.append(embedded.watch)
            pools = {"": pool(endpoints, credentials)}
            pools |= {name: pool(there, where.credentials) for name, there in where.stages.items()}
            for each in pools.values():
                stack.push_async_callback(each.close)
            connecting = (each.connect() for each in pools.values())
            try:
                await raced(together(*connecting), *(guard() for guard in guards))
            except IncompleteError as error:
                if embedded is not None and not pools[""].ready:
                    await embedded.explain(error)
                raise
            return pools

        scorer = connect_scorer(where.scorer, where.credentials, patience, guards, judge=where.judge, notify=notify)
        # Side by side: each of the two may have a process to start.
        pools, (client, rules) = await together(models(), stack.enter_async_context(scorer))
        yield Servers(pools, client, rules, guards)


def to_stderr(line: str) -> None:
    """Tells people a line, beside what a command prints."""
    print(line, file=sys.stderr)


@contextlib.asynccontextmanager
async def connect_scorer(
    endpoint: Endpoint | None,
    credentials: Credentials,
    patience: float,
    guards: list[Callable[[], Coroutine[Any, Any, None]]] | None = None,
    *,
    judge: Sequence[str] = (),
    notify: Notify = to_stderr,
) -> AsyncIterator[tuple[ScorerClient, scorer_pb2.ListRulesResponse]]:
    """Reaches a scorer, or starts one, with a judge if one is asked for, if no endpoint is given."""
    async with contextlib.AsyncExitStack() as stack:
        if endpoint is None:
            embedded = LocalServer("scorer", judge)
            endpoint, credentials = await stack.enter_async_context(embedded), PLAIN
            if guards is not None:
                guards.append(embedded.watch)
        client = ScorerClient(endpoint, credentials, patience=patience, notify=notify)
        stack.push_async_callback(client.close)
        yield client, await client.list_rules()


async def raced(work: Coroutine[Any, Any, _T], *guards: Coroutine[Any, Any, None]) -> _T:
    """Returns what `work` returns, unless a guard raises first."""
    main = asyncio.ensure_future(work)
    others = [asyncio.ensure_future(guard) for guard in guards]
    try:
        done, _ = await asyncio.wait({main, *others}, return_when=asyncio.FIRST_COMPLETED)
        if main not in done:
            for task in done:
                await task
        return await main
    finally:
        for task in (main, *others):
            task.cancel()
        await asyncio.gather(main, *others, return_exceptions=True)


async def together(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """Returns what all the works return; the first failure ends the others before it is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _manifest(
    plan: Plan,
    servers: Servers,
    identity: Mapping[str, Any],
    stages: Mapping[str, model.GetModelInfoResponse],
    options: Options,
    path: Path,
    log: RunLog,
    console: Console,
) -> Mapping[str, Any]:
    """Writes the manifest of a new run, or holds this command against that of an old one."""
    file = path / MANIFEST
    fresh = run_manifest.make(
        identity,
        info=servers.info,
        stages=stages,
        replicas=sorted(servers.pools[""].replicas),
        rules=servers.rules,
        metrics=plan.metrics(),
        shard=options.shard,
        code=plan.code(),
    )
    if not file.exists():
        if log.resumed:
            raise run_manifest.ManifestError(f"{path} holds answers and no {MANIFEST}: give --run another folder")
        run_manifest.write(file, fresh)
        return fresh
    old = run_manifest.read(path)
    run_manifest.check_same(path, old, identity, options.shard)
    if resume.code_of(old) != fresh["benchmarks"]:
        resume.check_asked(plan, log, options.shard)
        same = "the benchmark's code has changed since, and asks the same of what was answered"
        console.print(same, style="dim", soft_wrap=True)
        old["benchmarks_resumed"] = fresh["benchmarks"]
    changed = resume.scored_otherwise(old, fresh)
    if changed:
        anew = f"{changed}: every answer is scored anew"
        console.print(anew, style="dim", highlight=False, markup=False, soft_wrap=True)
        log.forget_verdicts()
        old |= {name: fresh[name] for name in ("rules", "scorer", "judges")}
    old["replicas"] = _replicas(old, servers)
    old["metrics"] = fresh["metrics"]
    run_manifest.write(file, old)
    (path / RESULTS).unlink(missing_ok=True)
    return old


def _replicas(manifest: Mapping[str, Any], servers: Servers) -> list[str]:
    """Returns the replicas of every attempt at the run."""
    return sorted({*manifest["replicas"], *servers.pools[""].replicas})


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """What is there by now stays: the garbage collector need not look at it again and again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _expected(plan: Plan, shard: tuple[int, int] | None) -> int | None:
    """Returns the items that all rows of a shard come to if they are like the first ones; None if unknown."""
    rows = plan.rows
    if rows is None:
        return None
    total = 0
    for task in plan.tasks:
        items = sum(bool(turn.scoring) for sample in plan.first_samples(task) for turn in sample.turns)
        total += items * (plan.rows_of(task) or 0) * plan.repeats
    return round(total / shard[1]) if shard else total


def _serve_arguments(name: str) -> list[str]:
    kind, _, argument = name.partition(":")
    if kind == "demo" and argument:
        return ["--backend", "demo", "--model", argument]
    return ["--backend", "transformers", "--model", name]


@contextlib.contextmanager
def _handlers(handler: Callable[[], None]) -> Any:
    loop = asyncio.get_running_loop()
    # Signals reach the main thread alone; beside a notebook's own loop there are none to handle.
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
    for number in numbers:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _signals(engine: Engine, console: Console) -> AsyncIterator[None]:
    """The first Ctrl-C or SIGTERM drains, the second stops."""
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            engine.stop(IncompleteError("stopped; run the same command again to resume"))
            return
        asked = True
        console.print("stopping: calls in flight may end; once more stops at once", style="dim")
        engine.drain("stopped; run the same command again to resume")

    with _handlers(stop):
        yield
