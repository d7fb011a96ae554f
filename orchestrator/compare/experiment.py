"""Tests causes on a live server: sends the first run's requests again, each with one part of the second run's."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.compare.causes import Attribution, Cause
from orchestrator.compare.explain import Explained, Explanation
from orchestrator.engine import Engine, Ledger, Options
from orchestrator.run.request import RunRequest
from orchestrator.run.rescore import parity_scoring
from orchestrator.run.servers import connect, raced
from orchestrator.run_folder.files import IMAGES, PARITY_FOLDER
from orchestrator.run_folder.image_store import ImageStore
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.manifest import model_identity
from orchestrator.run_folder.reader import Item, Run
from orchestrator.run_folder.records import call_of
from orchestrator.samples import Call, Message, Part, Sample, Scoring, Turn

UNCHANGED = "unchanged"
TOGETHER = "together"
_SWAPPED = (Cause.PROMPT, Cause.IMAGE, Cause.DECODING)
_TRIED = (*_SWAPPED, Cause.SERVER, Cause.READING, Cause.UNRECORDED, Cause.NOISE)
_SILENT = (Outcome.FAILED, Outcome.REJECTED, Outcome.UNJUDGED)


@dataclass(slots=True)
class Trial:
    """One item whose request was sent again.

    Attributes:
        attribution: The causes of its difference.
        wanted: The second run's score.
        own: The first run's score.
        scores: Part replaced in the first run's request -> score of the answer; None without an answer.
            `UNCHANGED` is that request as it was, `TOGETHER` the second run's request.
    """

    key: str
    attribution: Attribution
    wanted: float
    own: float = 0.0
    scores: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The answers of a live server.

    Attributes:
        model: The server's model.
        same: True if it has the model, revision and template of the first run, and of the second run.
        trials: The items.
        left: Number of items that were not tried: they exceed the limit, or their requests are not recorded.
    """

    model: str
    same: tuple[bool, bool]
    trials: Sequence[Trial]
    left: int

    def cause(self, trial: Trial) -> str:
        """Returns the replaced part of the request that reproduces the second run's score."""
        if trial.scores.get(UNCHANGED) == trial.wanted:
            # The first run's model now answers the same request with another score.
            return Cause.NOISE if self.same[0] else Cause.SERVER if self.same[1] else "server or noise"
        singles = [name for name in (*_SWAPPED, Cause.READING) if trial.scores.get(name) == trial.wanted]
        if singles:
            return " or ".join(singles) + (", each alone" if len(singles) > 1 else "")
        if trial.scores.get(TOGETHER) == trial.wanted:
            return "all together"
        known, upstream = trial.attribution, {*trial.attribution.also} - {Cause.READING}
        if known.unrecorded == (Cause.IMAGE,) and not upstream and trial.scores.get(UNCHANGED) == trial.own:
            # All else is recorded and equal, and the request reproduces its answer: it is not chance.
            return Cause.IMAGE
        return "not reproduced"


async def experiment(explanation: Explanation, request: RunRequest, limit: int, console: Console) -> Experiment:
    """Sends requests to a live server again with one change at a time, for at most `limit` items, spread evenly.

    Raises:
        EngineError: The same errors as of a run.
    """
    eligible = [
        (task, share.attribution, places)
        for task in explanation.tasks
        for share in task.shares
        if share.attribution.cause in _TRIED or Cause.PROMPT in share.attribution.also
        for places in share.pairs
    ]
    step = max(1.0, len(eligible) / limit)
    chosen = [eligible[int(at * step)] for at in range(min(limit, len(eligible)))]
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory(prefix="lyncean-") as folder:
        log = RunLog(Path(folder))
        samples: list[Sample] = []
        try:
            for task, attribution, places in chosen:
                ((one, other),) = task.read([places])
                if one is None or other is None or (one.score or 0.0) == (other.score or 0.0):
                    continue  # counted differently, but scored alike
                trial = Trial(one.key, attribution, other.score or 0.0, one.score or 0.0)
                with contextlib.suppress(OSError):  # an image is missing
                    samples += (planned := list(_samples(task, trial, one, other, log)))
                    trials += [trial] if planned else []
            log.flush()
            info = await _ask(samples, log, request, console)
        finally:
            log.close()
        items = {item.key: item for item in Run(Path(folder), {}, {})}
        by_key = {trial.key: trial for trial in trials}
        for sample in samples:
            key, _, change = sample.key.rpartition("~")
            item = items[sample.key]
            by_key[key].scores[change] = None if item.outcome in _SILENT else item.score or 0.0
    first, second = (run.identity.get("model") == info for run in explanation.runs)
    return Experiment(info["model_name"], (first, second), trials, len(eligible) - len(trials))


async def _ask(samples: Sequence[Sample], log: RunLog, request: RunRequest, console: Console) -> Mapping[str, str]:
    """Runs and scores samples, and returns the identity of the model."""
    async with connect(request, console) as connections:
        options = Options(timeout=request.timeout, patience=request.patience)
        engine = Engine(iter(samples), Ledger(log), connections.pools, connections.scorer, options)
        await raced(engine.run(), *(guard() for guard in connections.guards))
        return model_identity(connections.info)


def _samples(task: Explained, trial: Trial, one: Item, other: Item, log: RunLog) -> Iterator[Sample]:
    """Yields a sample for each change; an answer that only needs scoring again is put into the log."""
    scoring = [_scoring(side.run, item) for side, item in zip(task.sides, (one, other), strict=True)]
    # A tool's log does not name one of our rules, so its reading is not tried.
    logged = bool(task.sides[1].imported) and other.verdict.get("rule") == task.sides[1].imported
    if not logged and (scoring[0] != scoring[1] or trial.attribution.cause is Cause.READING):
        key = f"{one.key}~{Cause.READING}"
        line = {**one.response, "key": key, "sample": key, "turn": "", "scoring": scoring[1]}
        stored = ImageStore(task.sides[0].run.path / IMAGES)
        for part in (one.response.get("response") or {}).get("parts", ()):
            if "image" in part:
                log.images.put(stored.get(part["image"]["sha256"]))
        log.add_response(key, None, orjson.dumps({name: value for name, value in line.items() if name != "crc32"}))
        yield _sample(key, None, scoring[1])
    # Scores of another tool cannot be reproduced here, and requests that are not recorded cannot be sent.
    ours = task.sides[0].run.manifest.get("scored_by") in (None, PARITY_FOLDER)
    if trial.attribution.cause is Cause.READING or not ours or task.sides[0].lacks(one) & {*_SWAPPED}:
        return
    lacking = task.sides[1].lacks(other) & {*_SWAPPED}
    mine, theirs = (
        call_of(item.response["request"], ImageStore(side.run.path / IMAGES).get)
        for side, item in zip(task.sides, (one, other), strict=True)
    )
    yield _sample(f"{one.key}~{UNCHANGED}", mine, scoring[0])
    differing = [cause for cause in (trial.attribution.cause, *trial.attribution.also) if cause in _SWAPPED]
    for cause in differing:
        if call := swapped(mine, theirs, cause):
            yield _sample(f"{one.key}~{cause}", call, scoring[0])
    if differing and not lacking:
        yield _sample(f"{one.key}~{TOGETHER}", theirs, scoring[1])


def _sample(key: str, call: Call | None, scoring: Mapping[str, Any]) -> Sample:
    def ask(_: object) -> Call:
        assert call, "its answer is in the log"
        return call

    lists = {name: tuple(scoring[name]) for name in ("targets", "options")}
    return Sample(key, (Turn(ask, scoring=Scoring(**{**scoring, **lists})),))


def _scoring(run: Run, item: Item) -> dict[str, Any]:
    """Returns the scoring of an item in a run."""
    parity = run.manifest.get("scored_by") == PARITY_FOLDER
    return parity_scoring(item.task, item.scoring) if parity else dict(item.scoring)


def swapped(mine: Call, theirs: Call, cause: Cause) -> Call | None:
    """Returns the first call with one part of the second; None if that part cannot be replaced alone.

    Images keep their positions in the text if both calls have the same number of them. A text without images gets the
    first call's images in front.
    """
    if cause is not Cause.IMAGE and bool(mine.continuations) != bool(theirs.continuations):
        return None
    if cause is Cause.DECODING:
        return replace(mine, config=theirs.config, modality=theirs.modality)
    here, there = (
        [part for message in call.messages for part in message.parts if _shows(part)] for call in (mine, theirs)
    )
    if there and len(here) != len(there):
        return None
    if cause is Cause.IMAGE:
        return replace(mine, messages=_with(mine.messages, there))
    messages = _with(theirs.messages, here if there else ())
    if here and not there:
        at = next((at for at, message in enumerate(messages) if message.role == model.ROLE_USER), 0)
        first = replace(messages[at], parts=(*here, *messages[at].parts))
        messages = (*messages[:at], first, *messages[at + 1 :])
    return replace(mine, messages=messages, continuations=theirs.continuations)


def _shows(part: Part) -> bool:
    return bool(part.image or part.clip)


def _with(messages: Sequence[Message], media: Sequence[Part]) -> tuple[Message, ...]:
    """Returns messages with their images and clips replaced by `media`, or removed if `media` is empty."""
    rest = iter(media)
    return tuple(
        replace(
            message,
            parts=tuple(next(rest) if _shows(part) else part for part in message.parts if media or not _shows(part)),
        )
        for message in messages
    )
