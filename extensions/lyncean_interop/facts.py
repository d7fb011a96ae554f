"""Facts about a run for publication: what it holds, what its maker adds, and why it cannot be published."""

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
        ConfigError: One is not of this form, or has another name.
    """
    found = {}
    for word in about:
        name, equals, value = word.partition("=")
        if not equals or not value.strip() or name not in known:
            raise ConfigError(f"--about {word}: give NAME=VALUE with one of {', '.join(known)}")
        found[name] = value.strip()
    return found


def source(run: Run, task: str) -> tuple[str, str]:
    """Returns where a task's data comes from, and the hash of it."""
    data = run.identity.get("data")
    found = data.get(task) if isinstance(data, Mapping) else None
    if not isinstance(found, Mapping):
        return str(found or ""), ""
    return str(found.get("origin", "")), str(found.get("sha256", ""))


def hub_source(run: Run, task: str) -> tuple[str, str]:
    """Returns the id and the revision of a data set of the Hugging Face hub; two empty texts for other data."""
    name, _, revision = source(run, task)[0].partition("@")
    return (name, revision) if revision and name.count("/") == 1 and " " not in name else ("", "")


def caveats(run: Run, task: str) -> list[str]:
    """Returns why a task's numbers are not the benchmark's, in a few words each; none where they are."""
    origin = source(run, task)[0]
    found = [f"synthetic data ({origin})"] if origin.startswith(_SYNTHETIC) else []
    found += ["blind: images replaced"] if run.identity.get("blind") else []
    limit = run.identity.get("limit")
    found += [f"limited to {limit} rows"] if limit is not None else []
    found += ["one shard of a run"] if run.manifest.get("shard") else []
    if task not in run.tasks:
        return [*found, "not complete"]
    found += [note.sentence.removeprefix(f"{task} ") for note in run.notes if note.task == task and note.brief]
    own = counts({task: run.tasks[task]})
    found += [f"{own[name]:,} items {name}" for name in _UNFINISHED if own[name]]
    found += [line.removeprefix(f"{task}: ") for line in doubts({task: run.tasks[task]})]
    if own["planned"] != sum(own[name] for name in OUTCOMES):
        found.append("not complete")
    return found


def cut(run: Run, task: str) -> list[str]:
    """Returns how many answers of a task the output limit cut, in a few words; none where that is none."""
    found = cut_counts(run.tasks).get(task)
    return [f"answers of {found} cut at the output limit"] if found and found.items else []


def settings(run: Run) -> list[str]:
    """Returns how a run differs from the benchmark's own protocol, or repeats it, in a few words each."""
    identity: Mapping[str, Any] = run.identity
    found = [f"decoding: {run.deviations}"] if run.deviations else []
    found += ["parity with the reference implementation"] if identity.get("parity") else []
    found += ["options shuffled"] if identity.get("shuffle_options") else []
    repeats = identity.get("repeats") or 1
    found += [f"{repeats} repeats"] if repeats != 1 else []
    return [*found, "log-likelihood"] if identity.get("method") == "likelihood" else found


def command(run: Run) -> str:
    """Returns the command that made a run, "" where it was made from Python."""
    words = run.manifest.get("command") or ""
    return words if isinstance(words, str) else " ".join(map(str, words))


def library(run: Run) -> str:
    """Returns the version of Lyncean that made a run."""
    return str((run.manifest.get("versions") or {}).get("lyncean") or "unknown")
