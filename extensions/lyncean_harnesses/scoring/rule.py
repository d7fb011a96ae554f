"""Scores an answer by the code of a foreign task: its filters and its `process_results`, unchanged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from google.protobuf.json_format import MessageToDict

from lyncean.rpc import MAX_DETAILS
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.library import HarnessError, harness, seeded, split
from lyncean_harnesses.library.dice import watched
from lyncean_harnesses.library.foreign import limit_met
from lyncean_harnesses.library.library import Library
from lyncean_harnesses.library.scored import Scored
from lyncean_harnesses.library.values import decode, encode
from lyncean_harnesses.scoring import cell
from lyncean_harnesses.scoring.judge import answered, unanswered
from lyncean_harnesses.scoring.order import DRAWN
from scorer import JudgedRule, RequestError, foreign_allowed, scored
from scorer.judges import Judge, JudgeError, JudgePrompt, Reply

TASK_PARAMS = {
    "task": "the task, for example lmms:mme",
    "learned": "what the harness learned of the task from its data, as JSON",
}
"""Parameters that rule and metric share; they identify the task."""


def task_of(params: Mapping[str, Any]) -> Scored:
    """Returns the scoring half of the task that parameters name; called in the process of foreign code.

    Raises:
        RequestError: They name no task, or the scorer lacks a requirement of the task.
    """
    prefix, name = named(params)
    library: Library = harness(prefix)
    try:
        return library.scored(name, foreign_allowed().include, params.get("learned", "{}"))
    except HarnessError as error:
        raise RequestError(str(error), "harness") from error


def named(params: Mapping[str, Any], name: str = "task", example: str = "lmms:mme") -> tuple[str, str]:
    """Returns the harness and the name of the task or group that parameters name.

    Raises:
        RequestError: They name no task or group.
    """
    word = params.get(name, "")
    parts = split(word) if isinstance(word, str) else None
    if parts is None:
        raise RequestError(f"parameter {name!r} is {word!r}: give a {name} such as {example}", "invalid_param")
    return parts


async def read(request: pb.ScoreRequest, judge: Judge | None) -> pb.Verdict:
    """Scores one answer; keeps one of several answers to a document for the metric, which joins them.

    `judge` replies to the task's code.
    """
    try:
        done = await answered(partial(cell.scored, request), judge)
    except JudgeError as error:
        return pb.Verdict(outcome="unjudged", reason=error.reason, detail=str(error)[:500])
    verdict = done.value
    if done.replies:
        verdict.judge.CopyFrom(_judgement(done.replies))
    return verdict


def _judgement(replies: Sequence[tuple[JudgePrompt, Reply]]) -> pb.Judgement:
    """Returns the prompt's hash and the reply; for several questions the hash of their hashes, and all replies."""
    hashes = [prompt.sha256 for prompt, _ in replies]
    answers = [reply for _, reply in replies]
    judgement = pb.Judgement(
        model=answers[-1].model,
        prompt_sha256=hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest(),
        words="\n\n".join(reply.text for reply in answers),
        cached=all(reply.cached for reply in answers),
    )
    judgement.usage.input_tokens = sum(reply.input_tokens for reply in answers)
    judgement.usage.output_tokens = sum(reply.output_tokens for reply in answers)
    return judgement


def read_here(request: pb.ScoreRequest) -> pb.Verdict:
    """Scores one answer; called in the process of foreign code."""
    params = MessageToDict(request.params)
    task = task_of(params)
    doc = decode(params["doc"])
    if request.scores:
        response: Any = task.likelihoods([(s.logprob, s.token_count, s.is_greedy) for s in request.scores])
    else:
        response = request.text
    record: dict[str, Any] = {"index": int(params["index"])}
    if params.get("requests", 1) * params.get("repeats", 1) * params.get("rounds", 1) > 1:
        position, turn = (int(params["request"]), int(params["repeat"])), int(params.get("round", 0))
        record |= {"place": position, "response": response, "doc": doc if position == (0, 0) and not turn else None}
        record |= {"round": turn} if "round" in params else {}
        return _kept(scored("", 0.0, reason="part_of_an_answer", details=encode(record)))
    try:
        responses = [[[response.strip()]]] if "round" in params else grouped([response])
        with seeded(request.key), watched() as drew:
            results = task.results(doc, responses)
            drawn = drew()
        record["results"] = results
        text = encode(record)
        if drawn:  # the metric scores it again in the evaluator's order
            longer = encode(record | {DRAWN: (doc, responses)})
            text = longer if len(longer) <= MAX_DETAILS else encode(record | {DRAWN: None})
    except Exception as error:
        detail = f"the task's code fails on this answer: {type(error).__name__}: {error}"
        if limit := limit_met(error):
            return pb.Verdict(outcome="unjudged", reason=cell.LIMIT, detail=f"{limit}: {detail}"[:500])
        return pb.Verdict(outcome="unjudged", reason="task_failed", detail=detail[:500])
    score, parts = _scores(task, results)
    reason = "" if score is not None else "no_score"
    return _kept(scored(request.text.strip(), score or 0.0, reason=reason, scores=parts, details=text))


def _kept(verdict: pb.Verdict) -> pb.Verdict:
    """Returns a verdict, or one that reports that its record is too long."""
    if len(verdict.details) <= MAX_DETAILS:
        return verdict
    detail = f"the task's record of this answer has {len(verdict.details):,} characters; {MAX_DETAILS:,} are kept"
    return pb.Verdict(outcome="unjudged", reason="record_too_long", detail=detail)


def grouped(responses: list[Any]) -> list[list[Any]]:
    """Returns the responses to a document's requests, one for each repeat; option scores become one each."""
    return [[reply] for response in responses for reply in (response if isinstance(response, list) else [response])]


def _scores(task: Scored, results: Mapping[str, Mapping[str, Any]]) -> tuple[float | None, dict[str, float]]:
    """Returns the item's score, from its first metric with a score, and the numbers of its metrics."""
    parts = {}
    for key, metrics in results.items():
        for name, value in metrics.items():
            number = number_of(value)
            if number is None and isinstance(value, Mapping):
                number = number_of(value.get("score"))
            if number is not None:
                parts[name if key == "none" else f"{name},{key}"] = number
    if parts:
        return next(iter(parts.values())), parts
    for metrics in results.values():
        for name, value in metrics.items():
            number = None
            try:
                with unanswered() as has_asked:  # questions to a judge concern all items together
                    number = number_of(task.aggregate(name, [value]))
                number = None if has_asked() else number
            except Exception:  # an aggregation may reject a single item
                number = None
            if number is not None:
                return number, {}
    return None, {}


def number_of(value: Any) -> float | None:
    """Returns a value as a finite number, None if it is not one."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


RULE = JudgedRule(
    name="harness_task",
    description="Filters and process_results of a task of another harness, by its own code, which must be installed "
    "beside the scorer, and the scorer be started with --foreign-tasks. All but the code comes in the parameters; "
    "targets are for people. A judge that the code asks is that of the scorer.",
    read=read,
    required=False,
    parity=True,
    reads=("text", "scores"),
    params={
        **TASK_PARAMS,
        "doc": "the document, encoded",
        "index": "its number among the documents",
        "request": "which of the document's requests this answers, from 0",
        "repeat": "which repeat this is, from 0",
        "requests": "how many requests the document has",
        "repeats": "how many repeats the task itself asks for",
        "round": "which round of a conversation this answers, from 0",
        "rounds": "how many rounds it has",
    },
)
