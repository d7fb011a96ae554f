"""Checks that a run may resume: its requests must be those that would be sent now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import orjson

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.deviations import Deviations
from orchestrator.engine.trajectory import call_name
from orchestrator.errors import ConfigError
from orchestrator.run.plan import Plan
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.key_table import KeyTable, shard_of
from orchestrator.run_folder.lines import EndedLine, Head
from orchestrator.run_folder.log import RunLog, State
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.metrics import counts, unasked
from orchestrator.run_folder.mistakes import of_configuration
from orchestrator.run_folder.parts import Medium
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.records import answer_of_line, request_json, scoring_json, without_folders
from orchestrator.run_folder.scanning import scan
from orchestrator.samples import Answer, BadRowError, NoAnswerError, Sample

_OF_FINISHING = ("max_output_tokens", "thinking_budget")
ASKED_AGAIN = "rejected_asked_again"
"""Field of the manifest of a resumed run, as long as it goes on: items that were rejected are asked again."""


def never_asked(run: Path, manifest: Mapping[str, Any]) -> bool:
    """Returns True if rejected items are sent again: no item of a task was served, which may be mended now."""
    if manifest.get(ASKED_AGAIN):
        return True
    try:
        return bool(unasked(open_run(run).tasks))
    except ConfigError:  # damaged results, which the resume replaces
        return False


def mistaken(run: Path) -> bool:
    """Returns True if a mistake of configuration had items of a complete run rejected, which may now be answered.

    Raises:
        ConfigError: If its results are damaged.
        RunLogError: If a line is damaged.
    """
    if not counts(open_run(run).tasks)["rejected"]:
        return False
    lines = {line.key: line for _, line in scan(run / RESPONSES, EndedLine)}
    return any(line.outcome == Outcome.REJECTED and of_configuration(line.error) for line in lines.values())


def scored_otherwise(old: Mapping[str, Any], fresh: Mapping[str, Any]) -> str:
    """Returns what the scorer has changed since a manifest was written, "" where nothing.

    Verdicts of two states of the rules, or of two judges, in one table would be two measurements.
    """
    if old["rules"] != fresh["rules"]:
        return "the scorer's rules have changed since"
    before, now = (", ".join(manifest.get("judges") or ["none"]) for manifest in (old, fresh))
    return f"the judges have changed since, from {before} to {now}" if before != now else ""


def code_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns the hashes of the benchmarks' code that a run was last asked with."""
    code: Mapping[str, str] = manifest.get("benchmarks_resumed") or manifest.get("benchmarks") or {}
    return code


def check_asked(plan: Plan, log: RunLog, shard: tuple[int, int] | None, changes: Deviations) -> None:
    """Holds what the log says was asked against what the plan would ask, where the benchmark's code has changed.

    Builds every sample that the log knows anew, images read and later turns with the answers logged.

    Raises:
        ManifestError: If a key would be asked or judged otherwise, or is made no longer; names it.
        DataError: If a row cannot be used.
        EngineError: If the benchmark fails.
    """
    left = KeyTable()
    for _, head in scan(log.path / RESPONSES, Head):
        left.put(head.key, flags=1)
    number = len(left)
    for sample in plan.samples() if number else ():
        if shard and shard_of(sample.key, shard[1]) != shard[0]:
            continue
        for key in _keys(sample, left):
            left.put(key, flags=0)
            number -= 1
        if difference := _differing(sample, log, changes):
            raise _refusal(log, *difference)
        if not number:
            return
    for _, head in scan(log.path / RESPONSES, Head):
        if left.get(head.key) == (0, 1):
            raise _refusal(log, head.key, "would not be asked")


def _keys(sample: Sample, left: KeyTable) -> Iterator[str]:
    """Yields those keys of a sample that are left: of its turns, and of calls and tool results of turns with tools."""
    for turn in sample.turns:
        keys = [sample.item_key(turn)]
        for ordinal in range(1, turn.play.max_calls + 1) if turn.play else ():
            keys.append(sample.call_key(call_name(ordinal, turn.name)))
            tools = (sample.call_key(call_name(ordinal, turn.name, tool)) for tool in count(1))
            keys += takewhile(lambda key: left.get(key) == (0, 1), tools)
        yield from (key for key in keys if left.get(key) == (0, 1))


def _refusal(log: RunLog, key: str, question: str) -> ManifestError:
    return ManifestError(
        f"{log.path}: the benchmark's code has changed since, and {key} {question} now; one run cannot hold both: "
        "give --run another folder, or run the version that began it"
    )


def _differing(sample: Sample, log: RunLog, changes: Deviations) -> tuple[str, str] | None:
    """Returns the first key of a sample that would be asked or judged otherwise, and which of the two."""
    answers: list[Answer] = []
    before = 0
    for turn in sample.turns:
        key = sample.item_key(turn)
        entry = log.entry(key)
        # Sent again in any case, even if an earlier answer was finished since.
        if entry.state in (State.NONE, State.FAILED) or entry.offset < before:
            return None
        before = entry.offset
        line = log.responses.read(entry.offset)
        stored = line["scoring"] and without_folders(line["scoring"])
        if _plain(scoring_json(turn.scoring)) != stored:
            return key, "would be judged otherwise"
        if line["request"] is None:
            return None
        try:
            call = changes.first(turn, answers, key)
        except (BadRowError, NoAnswerError):
            return key, "could not be asked"
        if _benchmark_request(_plain(request_json(call, _sha256)), line) != _benchmark_request(line["request"], line):
            return key, "would be asked otherwise"
        if entry.state is State.ENDED:
            return None
        answers.append(answer_of_line(line, log.images.get))
    return None


def _benchmark_request(request: Mapping[str, Any], line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a request without what finishing a cut answer changes in it."""
    if "finished" not in line:
        return request
    messages = request["messages"]
    if line["finished"].get("continued") and messages[-1]["role"] == "ROLE_ASSISTANT":
        messages = messages[:-1]
    config = {name: value for name, value in request["config"].items() if name not in _OF_FINISHING}
    return {**request, "messages": messages, "config": config}


def _plain(content: Any) -> Any:
    return orjson.loads(orjson.dumps(content))


def _sha256(medium: Medium) -> str:
    return hashlib.sha256(medium.data).hexdigest()
