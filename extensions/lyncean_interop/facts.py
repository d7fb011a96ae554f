"""Facts about a run for publication: facts of the run, facts that its author adds, and reasons against publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator import ConfigError
from orchestrator.run_folder import OUTCOMES, Run, counts, cut_counts, doubts

_SYNTHETIC = "synthetic"
_UNFINISHED = ("failed", "unjudged")


def parse(about: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Returns the facts of `--about NAME=VALUE`.

    Raises:
        ConfigError: A fact is not of this form, or its name is unknown.
    """
    facts = {}
    for word in about:
        name, equals, value = word.partition("=")
        if not equals or not value.strip() or name not in known:
            raise ConfigError(f"--about {word}: give NAME=VALUE with one of {', '.join(known)}")
        facts[name] = value.strip()
    return facts


def source(run: Run, task: str) -> tuple[str, str]:
    """Returns the origin and the hash of a task's data."""
    data = run.identity.get("data")
    entry = data.get(task) if isinstance(data, Mapping) else None
    if not isinstance(entry, Mapping):
        return str(entry or ""), ""
    return str(entry.get("origin", "")), str(entry.get("sha256", ""))


def hub_source(run: Run, task: str) -> tuple[str, str]:
    """Returns the id and the revision of a data set of the Hugging Face hub; two empty texts for other data."""
    name, _, revision = source(run, task)[0].partition("@")
    return (name, revision) if revision and name.count("/") == 1 and " " not in name else ("", "")


def caveats(run: Run, task: str) -> list[str]:
    """Returns brief reasons why a task's numbers are not the benchmark's; empty if they are."""
    origin = source(run, task)[0]
    reasons = [f"synthetic data ({origin})"] if origin.startswith(_SYNTHETIC) else []
    reasons += ["blind: images replaced"] if run.identity.get("blind") else []
    limit = run.identity.get("limit")
    reasons += [f"limited to {limit} rows"] if limit is not None else []
    reasons += ["one shard of a run"] if run.manifest.get("shard") else []
    if task not in run.tasks:
        return [*reasons, "not complete"]
    reasons += [note.sentence.removeprefix(f"{task} ") for note in run.notes if note.task == task and note.brief]
    tally = counts({task: run.tasks[task]})
    reasons += [f"{tally[name]:,} items {name}" for name in _UNFINISHED if tally[name]]
    reasons += [line.removeprefix(f"{task}: ") for line in doubts({task: run.tasks[task]})]
    if tally["planned"] != sum(tally[name] for name in OUTCOMES):
        reasons.append("not complete")
    return reasons


def cut(run: Run, task: str) -> list[str]:
    """Returns a sentence on the answers of a task that the output limit cut; empty if there are none."""
    cut_items = cut_counts(run.tasks).get(task)
    return [f"answers of {cut_items} cut at the output limit"] if cut_items and cut_items.items else []


def settings(run: Run) -> list[str]:
    """Returns brief notes on a run's differences from the benchmark's protocol and on its repeats."""
    identity: Mapping[str, Any] = run.identity
    differences = [f"decoding: {run.deviations}"] if run.deviations else []
    differences += ["parity with the reference implementation"] if identity.get("parity") else []
    differences += ["options shuffled"] if identity.get("shuffle_options") else []
    repeats = identity.get("repeats") or 1
    differences += [f"{repeats} repeats"] if repeats != 1 else []
    return [*differences, "log-likelihood"] if identity.get("method") == "likelihood" else differences


def command(run: Run) -> str:
    """Returns the command of a run, "" for a run from Python."""
    arguments = run.manifest.get("command") or ""
    return arguments if isinstance(arguments, str) else " ".join(map(str, arguments))


def library(run: Run) -> str:
    """Returns the version of Lyncean that a run was made with."""
    return str((run.manifest.get("versions") or {}).get("lyncean") or "unknown")
