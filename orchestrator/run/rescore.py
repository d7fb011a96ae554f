"""Scoring again, from a run folder alone."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Container, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lyncean.rpc.waits import in_thread
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine import ScorerClient
from orchestrator.engine.evidence import put_evidence
from orchestrator.errors import IncompleteError
from orchestrator.run import foreign, further_metrics, preflight, reason_then_score, results
from orchestrator.run.servers import together
from orchestrator.run_folder import manifest as run_manifest
from orchestrator.run_folder.appender import Appender
from orchestrator.run_folder.files import IMAGES, MANIFEST, PARITY_FOLDER, PART, REPORTED_FOLDER, RESPONSES, VERDICTS
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.records import scored_line, unanswered_line, verdict_line

PARITY: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    "vstar_bench": {"choice": ("lmms_vstar", {})},
    "VisualPuzzles_cot": {"choice": ("lmms_visualpuzzles", {"variant": "main"})},
    "VisualPuzzles_direct": {"choice": ("lmms_visualpuzzles", {"variant": "main"})},
    "VisualPuzzles": {"choice": ("lmms_visualpuzzles", {"variant": "unig2u"})},
    "reform_": {
        "choice": ("reform_choice", {}),
        "contains_word": ("reform_ocr", {}),
        "key_information": ("reform_kie", {}),
    },
}
"""Prefix of a task's name (first match counts) -> our rule -> the reference's own rule and its parameters."""


async def rescore(
    run: Path,
    client: ScorerClient,
    rules: scorer.ListRulesResponse,
    *,
    parity: bool,
    given: Mapping[str, Any] = MappingProxyType({}),
    further: Mapping[str, scorer.MetricSpec] = MappingProxyType({}),
) -> Path:
    """Reads every answer of a complete run anew and returns the folder that holds the metrics.

    That is the run folder itself, or with `parity` a folder `parity` in it, which shares the
    answers: two readings of the same answers can then be compared.

    Args:
        run: The run folder.
        client: The scorer.
        rules: What it lists.
        parity: Whether to read as the references do.
        given: Further fields of the manifest.
        further: Metrics for every task beside its own, by their words.

    Raises:
        IncompleteError: If the run is not complete, or the scorer goes away.
        EngineError: If the scorer finds an item at fault.
        ManifestError: If the run is missing, or a task has no reference rule.
        ConfigError: If a further metric cannot be computed of the run, which is then left as it is.
    """
    manifest = run_manifest.read(run)
    if "planned" not in manifest:
        raise IncompleteError(f"{run} is not complete: run its command again first ({manifest['command']})")
    if further:
        further_metrics.check_repeats(further, further_metrics.repeats_of(run))
        manifest["metrics"] = further_metrics.in_manifest(manifest, further)
        await preflight.check_metrics(str(run), client, further.values(), after="")
    log = RunLog(run)
    try:
        target = _beside(run, PARITY_FOLDER) if parity else run
        partial = target / f".{VERDICTS}.partial"
        partial.unlink(missing_ok=True)
        verdicts = Appender(partial)
        try:
            await _score_all(log, verdicts, client, parity, reason_then_score.cut_samples(run, manifest))
        finally:
            verdicts.close()
        log.sync()  # raises where another process may score the folder too
        partial.replace(target / VERDICTS)
        manifest |= {
            "rules": {rule.name: rule.sha256 for rule in rules.rules},
            "scorer": rules.scorer_version,
            "judges": list(rules.judges),
            "metrics": run_manifest.with_agreement(manifest["metrics"], rules.judges),
            **({"scored_by": PARITY_FOLDER} if parity else {}),
            **given,
            **foreign.fenced(manifest, rules),
        }
        await in_thread(functools.partial(run_manifest.write, target / MANIFEST, manifest), "disk")
        await results.write(target, manifest, client)
    finally:
        log.close()
    return target


async def _score_all(
    log: RunLog, verdicts: Appender, client: ScorerClient, parity: bool, after_cut: Container[str]
) -> None:
    def judged(verdict: scorer.Verdict, scoring: Mapping[str, Any], request: scorer.ScoreRequest) -> None:
        line = verdict_line(verdict, verdict.key.split("/", 1)[0], scoring, cut=request.cut, facts=request.facts)
        verdicts.add(log.of_answer(verdict.key, line))

    async def feed() -> None:
        index = Index(log.path, (RESPONSES,))
        for task, offsets in index.by_task(index.responses).items():
            for offset in offsets:
                line = log.responses.read(int(offset))
                scoring = line["scoring"]
                if scoring is None:
                    continue
                if line["sample"] in after_cut:
                    line["after_cut"] = True
                if "outcome" in line:
                    verdicts.add(log.of_answer(line["key"], unanswered_line(line)))
                    continue
                if parity:
                    scoring = parity_scoring(task, scoring)
                await client.wait_for_room()
                # Between any two answers the scorer has its turn.
                await asyncio.sleep(0)
                request = scored_line(line, scoring, log.images.get)
                needs = client.needs.get(scoring["rule"], frozenset())
                client.put(put_evidence(request, line, log, needs), scoring)
                if verdicts.pending:
                    verdicts.flush()
        await client.finish()

    client.on_verdict = judged
    await together(client.run(), feed())


def parity_scoring(task: str, scoring: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how the reference judges what `scoring` judges by default.

    Raises:
        ManifestError: If the task has no reference rule.
    """
    rule = scoring["rule"]
    pairs = next((pairs for prefix, pairs in PARITY.items() if task.startswith(prefix)), {})
    if any(rule == theirs for theirs, _ in pairs.values()):
        return dict(scoring)
    if rule not in pairs:
        raise run_manifest.ManifestError(f"there is no reference rule for {task} with rule {rule}: leave --parity out")
    theirs, params = pairs[rule]
    return {**scoring, "rule": theirs, "params": params}


async def write_reported(
    run: Path, client: ScorerClient, tool: str, scores: Mapping[str, tuple[float, str]], *, called: str = "score"
) -> Path:
    """Writes another tool's own verdicts on the answers of an imported run as a run folder beside ours.

    Args:
        run: The imported run.
        client: Computes the metrics.
        tool: The tool, in place of a rule.
        scores: Key -> the tool's score, and what it read. Other items have failed or, with an answer, are unjudged.
        called: The tool's name of the scores, whose mean stands for metrics that the task's own code computes.

    Raises:
        IncompleteError: The scorer goes away.
        EngineError: The scorer finds an item at fault.
    """
    target = _beside(run, REPORTED_FOLDER)
    verdicts = Appender(target / VERDICTS)
    try:
        for item in open_run(run):
            verdict = scorer.Verdict(key=item.key, outcome=item.response.get("outcome", Outcome.UNJUDGED))
            score, extracted = scores.get(item.key, (math.nan, ""))
            if math.isfinite(score):
                verdict.outcome, verdict.score, verdict.extracted = Outcome.SCORED, score, extracted
            scoring = {**item.scoring, "rule": tool}
            verdicts.add(verdict_line(verdict, item.task, scoring, cut=item.cut))
    finally:
        verdicts.flush()
        verdicts.close()
    manifest = {**run_manifest.read(run), "rules": {}, "scorer": tool, "judges": [], "scored_by": tool}
    share = all(0 <= score <= 1 for score, _ in scores.values())
    manifest["metrics"] = {task: _own_metrics(specs, called, share) for task, specs in manifest["metrics"].items()}
    run_manifest.write(target / MANIFEST, manifest)
    await results.write(target, manifest, client)
    return target


def _own_metrics(specs: list[dict[str, Any]], called: str, share: bool) -> list[dict[str, Any]]:
    """Returns metrics that a tool's scores have; code of a task computes its metrics from its own verdicts alone."""
    if not any(spec["metric"] in run_manifest.FOREIGN_METRICS for spec in specs):
        return specs
    name = next((spec["name"] for spec in specs if spec["name"].partition(",")[0] == called), called)
    return [{"metric": "accuracy" if share else "mean", "name": name, "params": {}}]


def _beside(run: Path, name: str) -> Path:
    """Returns a folder in a run folder for another reading of its answers, which it shares."""
    folder = run / name
    folder.mkdir(exist_ok=True)
    for shared in (RESPONSES, IMAGES, *PART):
        link = folder / shared
        if not link.is_symlink() and (shared in (RESPONSES, IMAGES) or (run / shared).exists()):
            link.symlink_to(Path("..") / shared)
    return folder
