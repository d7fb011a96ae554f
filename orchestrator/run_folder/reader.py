"""Reading of a run folder, for every report, table and export.

Responses stay on disk. An index of byte offsets is kept, so that a run of any length can be read
in the order of its keys, one item at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from msgspec import Struct, to_builtins

from lyncean.vocabulary.outcomes import ANSWERED, Outcome
from orchestrator.errors import ConfigError
from orchestrator.run_folder import notes, unreadable, validity
from orchestrator.run_folder.cut import FINISH_CUT, line_is_cut
from orchestrator.run_folder.files import IMAGES, MANIFEST, RESPONSES, RESULTS, VERDICTS, find_runs
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.lines import CountedLine, DamagedLine, loads, verify_identity
from orchestrator.run_folder.metrics import counts, metric_results
from orchestrator.run_folder.notes import Note
from orchestrator.run_folder.scanning import lines_at, scan

_SHA256 = re.compile("[0-9a-f]{64}")

_OBJECTS = ("request", "response", "scoring", "error", "scores", "labels", "judge", "tool", "facts")
"""Fields of the lines of a run's logs that hold an object or nothing."""

STEP = "step"
"""Replaces the outcome of a turn that only prepares another and is not scored."""


class Item(Struct, frozen=True):
    """One call of a run and its outcome.

    Attributes:
        key: The item's key.
        response: Its line of responses.jsonl, empty if only a verdict is known.
        verdict: Its line of verdicts.jsonl, empty without one.
    """

    key: str
    response: Mapping[str, Any]
    verdict: Mapping[str, Any]

    @property
    def outcome(self) -> str:
        """One of the six outcomes, `STEP` for an unscored turn, "" if it is not scored yet."""
        if outcome := self.verdict.get("outcome") or self.response.get("outcome"):
            return str(outcome)
        return STEP if self.response and self.response.get("scoring") is None else ""

    @property
    def cut(self) -> bool:
        """True if the output limit ended the answer, or the reasoning before it."""
        return bool(self.verdict.get("cut")) or line_is_cut(self.response)

    @property
    def score(self) -> float | None:
        """The verdict's score, None without one."""
        score = self.verdict.get("score")
        return None if score is None else float(score)

    @property
    def score_all(self) -> float | None:
        """The score as metrics over all samples count it: 0 for an outcome without one; None before any outcome."""
        if self.outcome in ("", STEP):
            return None
        score = self.score
        return 0.0 if score is None or math.isnan(score) else score

    @property
    def score_answered(self) -> float | None:
        """The score as metrics over answered samples count it; None if the item does not count."""
        return self.score_all if self.outcome in ANSWERED else None

    @property
    def text(self) -> str:
        """The text parts of the answer, joined: `span` refers to it."""
        parts = (self.response.get("response") or {}).get("parts", ())
        return "".join(part.get("text", "") for part in parts)

    @property
    def continuations(self) -> list[tuple[str, float]]:
        """The continuations that were scored with their log-probabilities, empty for a generated answer."""
        scores = (self.response.get("response") or {}).get("scores") or ()
        texts = (self.response.get("request") or {}).get("continuations", ())
        return [(str(text), score.get("logprob", 0.0)) for text, score in zip(texts, scores, strict=False)]

    @property
    def answer_text(self) -> str:
        """The answer for people: its text, or a line with log-probability and text for each continuation."""
        return "\n".join(f"{logprob}\t{text}" for text, logprob in self.continuations) or self.text

    @property
    def scoring(self) -> Mapping[str, Any]:
        """The scoring of the turn, empty without one."""
        return self.response.get("scoring") or {}

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.response.get("task") or self.verdict.get("task") or self.key.partition("/")[0])

    @property
    def sample(self) -> str:
        """Key of the sample that the item is a turn of."""
        return str(self.response.get("sample") or self.key)

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels by which the item can be sliced."""
        return self.scoring.get("labels") or self.verdict.get("labels") or {}

    @property
    def group(self) -> str:
        """Name of the group, "" without one."""
        return str(self.scoring.get("group") or self.verdict.get("group") or "")


@dataclass(frozen=True)
class Run:
    """A run folder, possibly one that is still being written.

    Attributes:
        path: The folder.
        manifest: manifest.json.
        results: results.json, empty while the run goes on.
    """

    path: Path
    manifest: Mapping[str, Any]
    results: Mapping[str, Any]
    name: str = field(default="")

    @cached_property
    def index(self) -> Index:
        """Offsets of each item's lines, items in natural order of their keys.

        Raises:
            ConfigError: results.json counts more items than the logs hold.
        """
        index = Index(self.path, natural=True)
        planned = sum(int(task["counts"]["planned"]) for task in self._tasks.values())
        held = int(((index.responses >= 0) & (index.verdicts >= 0)).sum())
        if held < planned:
            raise ConfigError(
                f"{self.path} has {held:,} of the {planned:,} items that its results.json counts: {RESPONSES} or "
                f"{VERDICTS} was cut or replaced; restore it, or run the same command again to ask for what is missing"
            )
        return index

    def __len__(self) -> int:
        return len(self.index)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Item]:
        return self.at(range(len(self)))

    def at(self, positions: Iterable[int]) -> Iterator[Item]:
        """Yields the items at some positions of the order, from 0.

        Raises:
            ConfigError: If a line is damaged.
        """
        responses, verdicts = self.index.responses, self.index.verdicts
        return self.lines((responses[position], verdicts[position]) for position in positions)

    def lines(self, offsets: Iterable[Sequence[int]]) -> Iterator[Item]:
        """Yields the items whose lines begin at some offsets of the two logs, -1 for a missing line.

        Raises:
            ConfigError: If a line is damaged.
        """
        with ExitStack() as stack:
            paths = (self.path / RESPONSES, self.path / VERDICTS)
            files = [stack.enter_context(path.open("rb")) if path.exists() else None for path in paths]
            for offset, other in offsets:
                response = _line(files[0], int(offset))
                verdict = _line(files[1], int(other))
                yield Item(str(response.get("key") or verdict["key"]), response, verdict)

    def read(self, keys: Iterable[str]) -> Iterator[Item]:
        """Yields the items of some keys, in their order; a missing one is empty."""
        for key in keys:
            position = self.index.find(key)
            yield Item(key, {}, {}) if position is None else next(self.at((position,)))

    def image(self, name: str) -> Path | None:
        """Returns the file of an image of the run, None if it has none of that name."""
        if not _SHA256.fullmatch(name):
            return None
        path = self.path / IMAGES / name
        # A link may lead to a store of images, never to a file of another name.
        return path if path.is_file() and path.resolve().name == name else None

    def unscored(self) -> Iterator[CountedLine]:
        """Yields the last verdict of each item that is not scored, in memory that does not grow with the run.

        Raises:
            RunLogError: A verdict is damaged.
        """
        path = self.path / VERDICTS
        if not path.exists():
            return
        with path.open("rb") as file:
            lines = sum(chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 20), b""))
        verdicts: Iterator[CountedLine]
        if lines == counts(self._tasks)["planned"]:
            verdicts = (line for _, line in scan(path, CountedLine))
        else:  # an item that was requested again still has its earlier line
            verdicts = lines_at(path, self.index.verdicts[self.index.verdicts >= 0], CountedLine)
        yield from (line for line in verdicts if line.outcome != Outcome.SCORED)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Fields that two runs share if they are the same run."""
        identity: Mapping[str, Any] = self.manifest.get("identity", {})
        return identity

    @property
    def deviations(self) -> str:
        """Deviations of its decoding from the benchmark's own protocol, as text; "" without any."""
        changes: Mapping[str, Any] = self.identity.get("deviations") or {}
        texts = [f"answer {changes['answer']}"] if "answer" in changes else []
        texts += [f"{name}={value}" for name, value in changes.get("generation", {}).items()]
        if "thinking" in changes:
            texts.append(f"thinking {changes['thinking']}")
        for name in ("chat_template", "extra_body"):
            if name in changes:
                texts.append(f"{name.replace('_', ' ')} {orjson.dumps(changes[name]).decode()}")
        texts += [f"cut answers finished up to {self.finish_cut:,} tokens"] if self.finish_cut else []
        return ", ".join(texts)

    @property
    def finish_cut(self) -> int:
        """Most output tokens to which cut answers were finished; 0 if they were left cut."""
        return int(self.manifest.get(FINISH_CUT) or 0)

    @cached_property
    def notes(self) -> Sequence[Note]:
        """Its statements about itself beside the metrics, empty while the run goes on."""
        return notes.read(self.results)

    @property
    def in_part(self) -> list[str]:
        """A sentence for each task of which not every sample was asked."""
        return [note.sentence for note in self.notes if note.brief]

    def specs(self, task: str) -> Sequence[Mapping[str, Any]]:
        """Returns the metrics requested of a task (lyncean.scorer.v1.MetricSpec), if the manifest has them."""
        specs: Sequence[Mapping[str, Any]] = (self.manifest.get("metrics") or {}).get(task, ())
        return specs

    @property
    def model(self) -> Mapping[str, Any]:
        """The model as the server reported it."""
        model: Mapping[str, Any] = self.manifest.get("model") or self.results.get("model") or {}
        return model

    @property
    def model_name(self) -> str:
        """The model's name, the folder's if it is unknown."""
        return str(self.model.get("model_name") or self.identity.get("model_name") or self.name)

    @property
    def doubt(self) -> str:
        """Doubt about the servers of the answers; "" if each answer names its own, and in older results."""
        return str((self.results.get("model") or {}).get("doubt", ""))

    @property
    def _tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """The results by task, in the order in which the run asked for them."""
        tasks: Mapping[str, Mapping[str, Any]] = self.results.get("tasks", {})
        order = [task for task in self.identity.get("tasks") or () if task in tasks]
        return {task: tasks[task] for task in dict.fromkeys((*order, *tasks))}

    @cached_property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """The results by task, empty while the run goes on; older ones get their doubts from the logs.

        Raises:
            ConfigError: A line of the run is damaged.
            RunLogError: A verdict is damaged.
        """
        before = {task: results for task, results in self._tasks.items() if validity.FIELD not in results}
        doubts = unreadable.from_logs(self, before) if before else {}
        return {
            task: {**results, validity.FIELD: to_builtins(doubts[task])} if task in doubts else results
            for task, results in self._tasks.items()
        }

    @cached_property
    def groups(self) -> Mapping[str, Mapping[str, Any]]:
        """The results of groups over their tasks, whose items are those of the tasks."""
        groups: Mapping[str, Mapping[str, Any]] = self.results.get("groups", {})
        return {
            name: group if validity.FIELD in group else {**group, validity.FIELD: to_builtins(self._of_group(group))}
            for name, group in groups.items()
        }

    def _of_group(self, group: Mapping[str, Any]) -> Sequence[validity.Doubt]:
        return validity.of_group({task: validity.of_results(self.tasks.get(task, {})) for task in group["tasks"]})

    @property
    def tasks_and_groups(self) -> Mapping[str, Mapping[str, Any]]:
        """The results of groups, then those of tasks: for metrics, never for counts of items."""
        return {**self.groups, **self.tasks}


def open_run(path: Path) -> Run:
    """Opens a run folder.

    Raises:
        ConfigError: If `path` is not a run folder.
    """
    if not (path / MANIFEST).is_file():
        known = [run.name for run in find_runs(path)] if path.is_dir() else []
        hint = f"; did you mean one of {', '.join(known[:5])} in it?" if known else ": give the folder that --run named"
        raise ConfigError(f"{path} is not a run folder: {MANIFEST} is missing{hint}")
    return named_run(path, path.resolve().name)


def named_run(path: Path, name: str) -> Run:
    """Returns the run of a folder that has a manifest.

    Raises:
        ConfigError: If its manifest is not a run's, or its results are damaged.
    """
    manifest = _read_json(path / MANIFEST)
    if not isinstance(manifest.get("identity"), dict):
        raise ConfigError(f"{path / MANIFEST} is not the manifest of a run: give the folder that --run named")
    if "identity_sha256" in manifest:
        verify_identity(path / MANIFEST, manifest)
    return Run(path, manifest, _read_results(path / RESULTS), name)


def epoch(moment: object) -> float:
    """Returns a moment in ISO 8601 as seconds since 1970, 0 for anything else."""
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return 0.0


def reason(item: Item) -> str:
    """Returns the reason for an item's outcome, "" if none is known."""
    return str(item.verdict.get("reason") or (item.response.get("error") or {}).get("reason") or "")


def _read_results(path: Path) -> dict[str, Any]:
    results = _read_json(path)
    try:
        list(metric_results({**results.get("groups", {}), **results.get("tasks", {})}))
        counts(results.get("tasks", {}))
        notes.read(results)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged, it does not hold a run's metrics: `orchestrator score` writes it anew"
        ) from error
    return results


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path} is damaged ({error}): restore it, or run the same command again") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is damaged: a JSON object was expected")
    return value


def _line(file: BinaryIO | None, offset: int) -> dict[str, Any]:
    if file is None or offset < 0:
        return {}
    file.seek(offset)
    try:
        line = loads(file.readline())
    except DamagedLine as error:
        raise ConfigError(f"{file.name} is damaged at byte {offset:,}: {error}") from error
    for name in _OBJECTS:
        if (value := line.get(name)) and type(value) is not dict:
            raise ConfigError(f"{file.name} is damaged at byte {offset:,}: {name} is not a JSON object")
    return line
