"""The lines of the run folder: messages to JSON and back (docs/run-folder.md).

Written by hand rather than by json_format, which costs half a millisecond a message: this is
the engine's hot path. The result is the same proto3 JSON; a test compares the two.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from msgspec import UNSET

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.cut import CUT_REASONING, line_is_cut
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import VerdictLine, encode
from orchestrator.run_folder.parts import (
    Json,
    LoadImage,
    StoreMedium,
    base64_of,
    output_json,
    part_json,
    part_of,
    proto_json,
    tool_call_of,
)
from orchestrator.samples import Answer, Call, Message, Scoring, ToolCall

_ROLES = {number: name for name, number in model.Role.items()}
_MODALITIES = {number: name for name, number in model.Modality.items()}
_FINISH = {number: name for name, number in model.FinishReason.items()}
_SCORED = ("rule", "targets", "options", "labels", "group")
"""Fields that a ScoreRequest and the line of a verdict take unchanged from a scoring."""

FOREIGN_RULE = "harness_task"
FOLDERS = "include"
"""A parameter of that rule, and of the metrics of its items, in older runs."""

_NO_FACTS: Mapping[str, float] = {}
UNSCORED = {Outcome.REJECTED, Outcome.UNJUDGED, Outcome.FAILED}
"""Outcomes whose verdicts carry no score; the others without an answer score 0."""


def request_json(call: Call, store: StoreMedium) -> Json:
    """Returns a call's request as proto3 JSON, its images and clips replaced by references."""
    messages = [
        {
            "role": _ROLES[message.role],
            "parts": [part_json(part, store) for part in message.parts],
            **({"reasoning": message.reasoning} if message.reasoning else {}),
            **({"opaque": base64_of(message.opaque)} if message.opaque else {}),
        }
        for message in call.messages
    ]
    line: Json = {"messages": messages}
    if call.continuations:
        line["continuations"] = list(call.continuations)
        return line
    line["config"] = orjson.Fragment(_config(call.config.SerializeToString(deterministic=True)))
    if call.modality:
        line["modality"] = _MODALITIES[call.modality]
    if call.tools:
        line["tools"] = [proto_json(tool) for tool in call.tools]
    return line


def call_of(request: Mapping[str, Any], load: LoadImage) -> Call:
    """Returns the call of a line's request, the inverse of `request_json` except for the stage.

    Raises:
        RunLogError: If the request is damaged.
        OSError: If an image or clip is missing.
    """
    try:
        messages = tuple(
            Message(
                model.Role.Value(message["role"]),
                tuple(part_of(part, load) for part in message["parts"]),
                message.get("reasoning", ""),
                b64decode(message.get("opaque", "")),
            )
            for message in request["messages"]
        )
        tools = tuple(json_format.ParseDict(tool, model.Tool()) for tool in request.get("tools") or ())
        config = json_format.ParseDict(request.get("config") or {}, model.GenerationConfig())
        modality = model.Modality.Value(request.get("modality") or "MODALITY_UNSPECIFIED")
    except (KeyError, TypeError, ValueError, json_format.ParseError) as error:
        raise RunLogError(f"a request in {RESPONSES} is damaged ({error!r})") from error
    return Call(messages, config, tuple(request.get("continuations") or ()), modality, tools=tools)


def response_json(response: model.GenerateResponse | model.LikelihoodResponse, store: StoreMedium) -> Json:
    """Returns a response as proto3 JSON, its images replaced by references."""
    line: Json
    if isinstance(response, model.LikelihoodResponse):
        line = {"scores": [_score_json(score) for score in response.scores]}
        if response.HasField("usage"):
            line["usage"] = _usage_json(response.usage)
        return line
    line = {
        "parts": [output_json(part, store) for part in response.parts],
        "finish_reason": _FINISH.get(response.finish_reason, response.finish_reason),
    }
    if response.reasoning:
        line["reasoning"] = response.reasoning
    if response.opaque:
        line["opaque"] = base64_of(response.opaque)
    if response.HasField("usage"):
        line["usage"] = _usage_json(response.usage)
    if response.HasField("effective_config"):
        fragment = _config(response.effective_config.SerializeToString(deterministic=True))
        line["effective_config"] = orjson.Fragment(fragment)
    if response.logprobs:
        line["logprobs"] = [proto_json(token) for token in response.logprobs]
    return line


def scoring_json(scoring: Scoring | None) -> Json | None:
    """Returns the scoring of a turn as a line has it."""
    if scoring is None:
        return None
    return {
        "rule": scoring.rule,
        "targets": list(scoring.targets),
        "options": list(scoring.options),
        "params": dict(scoring.params),
        "labels": dict(scoring.labels),
        "group": scoring.group,
    }


def score_request(key: str, scoring: Mapping[str, Any]) -> scorer.ScoreRequest:
    """Returns a ScoreRequest that has everything but the answer; `scoring` as in a line."""
    request = scorer.ScoreRequest(key=key, rule=scoring["rule"], group=scoring["group"])
    _put_lists(request, scoring["targets"], scoring["options"], scoring["labels"])
    _put_params(request, without_folders(scoring)["params"])
    return request


def without_folders(scoring: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a line's scoring without the folders of tasks that older runs have in it.

    A scorer takes none from a request: they are those of its own --include-path.
    """
    if scoring["rule"] != FOREIGN_RULE or FOLDERS not in scoring["params"]:
        return scoring
    return {**scoring, "params": {name: value for name, value in scoring["params"].items() if name != FOLDERS}}


def put_answer(request: scorer.ScoreRequest, answer: Answer, *, cut: bool = False) -> scorer.ScoreRequest:
    """Adds an answer, which the output limit may have cut, to a ScoreRequest and returns it."""
    if cut:
        request.cut = True
    if answer.scores:
        request.scores.extend(answer.scores)
    elif answer.images:
        request.images.images.extend(answer.images)
    else:
        request.text = answer.text
    return request


def answer_of(response: model.GenerateResponse | model.LikelihoodResponse) -> Answer:
    """Returns the answer in a response, as later turns and the scorer see it."""
    if isinstance(response, model.LikelihoodResponse):
        return Answer(scores=tuple(response.scores))
    parts = response.parts
    shown = tuple((image.width, image.height) for image in response.usage.images)
    tokens = response.usage.output_tokens, response.usage.reasoning_tokens
    if len(parts) == 1 and parts[0].WhichOneof("kind") == "text":
        text, reasoning = (parts[0].text, (), (), response.finish_reason), response.reasoning
        return Answer(*text, reasoning, (), response.opaque, shown, tokens)
    calls = (part.tool_call for part in parts if part.HasField("tool_call"))
    return Answer(
        text="".join(part.text for part in parts if part.HasField("text")),
        images=tuple(part.image for part in parts if part.HasField("image")),
        finish_reason=response.finish_reason,
        reasoning=response.reasoning,
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in calls),
        opaque=response.opaque,
        shown=shown,
        tokens=tokens,
    )


def answer_of_line(line: Mapping[str, Any], load: LoadImage) -> Answer:
    """Returns the answer that a line of `responses.jsonl` holds.

    Raises:
        RunLogError: If the line is damaged.
        FileNotFoundError: If an image is missing.
    """
    try:
        return _answer(line["response"], load)
    except (KeyError, TypeError, ValueError) as error:
        raise RunLogError(
            f"the line of {line.get('key')!r} in {RESPONSES} is damaged ({error!r}); delete the line and run the "
            "command that made the run again: it is asked anew"
        ) from error


def scored_line(line: Mapping[str, Any], scoring: Mapping[str, Any], load: LoadImage) -> scorer.ScoreRequest:
    """Returns the ScoreRequest of a line of `responses.jsonl` that holds an answer; raises as `answer_of_line` does.

    Args:
        line: The line.
        scoring: How it is scored, as in a line.
        load: Reads an image.
    """
    answer, request = answer_of_line(line, load), score_request(line["key"], scoring)
    request.facts.update(line.get("facts") or {})
    return put_answer(request, answer, cut=line_is_cut(line))


def _answer(response: Mapping[str, Any], load: LoadImage) -> Answer:
    if "scores" in response:
        return Answer(scores=tuple(_score_of(score) for score in response["scores"]))
    texts, images, calls = [], [], []
    for part in response["parts"]:
        if "image" in part:
            reference = part["image"]
            images.append(model.Image(data=load(reference["sha256"]), media_type=reference["media_type"]))
        elif "tool_call" in part:
            calls.append(tool_call_of(part["tool_call"]))
        else:
            texts.append(part["text"])
    usage = response.get("usage") or {}
    return Answer(
        text="".join(texts),
        images=tuple(images),
        finish_reason=model.FinishReason.Value(response["finish_reason"]),
        reasoning=response.get("reasoning", ""),
        tool_calls=tuple(calls),
        opaque=b64decode(response.get("opaque", "")),
        shown=tuple((image.get("width", 0), image.get("height", 0)) for image in usage.get("images", ())),
        tokens=(int(usage.get("output_tokens", 0)), int(usage.get("reasoning_tokens", 0))),
    )


def verdict_line(
    verdict: scorer.Verdict,
    task: str,
    scoring: Mapping[str, Any],
    *,
    cut: bool = False,
    facts: Mapping[str, float] = _NO_FACTS,
) -> bytes:
    """Returns the line of a verdict that the scorer reached on an answer, which the output limit may have cut."""
    line = _verdict(verdict.key, Outcome(verdict.outcome), verdict.reason, verdict.detail, task, scoring)
    line.extracted = verdict.extracted
    if verdict.HasField("score"):
        line.score = _double(verdict.score)
    if verdict.scores:
        line.scores = {name: _double(value) for name, value in verdict.scores.items()}
    if verdict.HasField("judge"):
        line.judge = proto_json(verdict.judge)
    if verdict.panel:
        line.panel = [proto_json(voice) for voice in verdict.panel]
    line.details = verdict.details
    if verdict.HasField("span"):
        line.span = {"start": verdict.span.start, "end": verdict.span.end}
    line.cut = cut
    if facts:
        line.facts = dict(sorted(facts.items()))
    return encode(line)


def outcome_line(
    key: str,
    outcome: Outcome,
    reason: str,
    detail: str,
    task: str,
    scoring: Mapping[str, Any],
    facts: Mapping[str, float] = _NO_FACTS,
) -> bytes:
    """Returns the line of a verdict that needs no scorer."""
    line = _verdict(key, outcome, reason, detail, task, scoring)
    line.facts = dict(facts)
    line.params = scoring["params"]
    line.cut = reason == CUT_REASONING
    if outcome not in UNSCORED:
        line.score = 0.0
    return encode(line)


def unanswered_line(line: Mapping[str, Any]) -> bytes:
    """Returns the line of a verdict for a line of `responses.jsonl` that holds no answer."""
    error, outcome = line["error"], Outcome(line["outcome"])
    why, facts = (error["reason"], error["message"]), line.get("facts") or _NO_FACTS
    return outcome_line(line["key"], outcome, *why, line["task"], line["scoring"], facts)


def pass_through(line: VerdictLine) -> scorer.ScoreRequest:
    """Returns the ScoreRequest that carries a line of `verdicts.jsonl` into a summary."""
    verdict = scorer.Verdict(key=line.key, outcome=line.outcome, extracted=line.extracted, reason=line.reason)
    verdict.details = line.details
    if line.score is not UNSET:
        verdict.score = float(line.score)
    for name, value in line.scores.items():
        verdict.scores[name] = float(value)
    for voice in line.panel:
        # A server may leave out its model's name.
        verdict.panel.add(model=voice.get("model", ""), words=voice["words"])
    request = scorer.ScoreRequest(key=line.key, verdict=verdict, rule=line.rule, group=line.group, cut=line.is_cut)
    _put_lists(request, line.targets, line.options, line.labels)
    for name, number in line.facts.items():
        request.facts[name] = number
    _put_params(request, line.params)
    return request


def _put_lists(
    request: scorer.ScoreRequest, targets: Sequence[str], options: Sequence[str], labels: Mapping[str, str]
) -> None:
    request.targets.extend(targets)
    request.options.extend(options)
    for name, value in labels.items():  # one by one: the constructor and `update` of a map take five times as long
        request.labels[name] = value


def _put_params(request: scorer.ScoreRequest, params: Mapping[str, Any]) -> None:
    if params:
        fields = Struct()
        fields.update(params)
        request.params.CopyFrom(fields)


def _verdict(
    key: str, outcome: Outcome, reason: str, detail: str, task: str, scoring: Mapping[str, Any]
) -> VerdictLine:
    fields = {name: scoring[name] for name in _SCORED}
    choices = _unnamed_choices(scoring)
    return VerdictLine(key=key, outcome=outcome, reason=reason, detail=detail, task=task, choices=choices, **fields)


def _unnamed_choices(scoring: Mapping[str, Any]) -> int:
    """Returns the number of options of a choice rule whose request names none, by the rules' own default."""
    if scoring["options"] or scoring["rule"] not in ("choice", "choice_number"):
        return 0
    params = scoring["params"]
    return len(params.get("labels") or ()) or int(params.get("count", 4))


@lru_cache(maxsize=1024)
def _config(data: bytes) -> bytes:
    config = model.GenerationConfig.FromString(data)
    return orjson.dumps(proto_json(config))


def _usage_json(usage: model.Usage) -> Json:
    line: Json = {
        field.name: _duration(value) if isinstance(value, Duration) else value for field, value in usage.ListFields()
    }
    if usage.media:
        line["media"] = [proto_json(medium) for medium in usage.media]
    if usage.images:
        line["images"] = [proto_json(image) for image in usage.images]
    return line


def _duration(duration: Duration) -> str:
    if duration.seconds < 0 or duration.nanos < 0:
        return duration.ToJsonString()
    nanos = f"{duration.nanos:09d}"
    for digits in (0, 3, 6):
        if not nanos[digits:].strip("0"):
            return f"{duration.seconds}.{nanos[:digits]}s" if digits else f"{duration.seconds}s"
    return f"{duration.seconds}.{nanos}s"


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _score_json(score: model.ContinuationScore) -> Json:
    line: Json = {"logprob": _double(score.logprob), "token_count": score.token_count}
    if score.is_greedy:
        line["is_greedy"] = True
    if score.tokens:
        line["tokens"] = [proto_json(token) for token in score.tokens]
    return line


def _score_of(line: Mapping[str, Any]) -> model.ContinuationScore:
    score = model.ContinuationScore(
        logprob=float(line.get("logprob", 0.0)),
        token_count=line.get("token_count", 0),
        is_greedy=line.get("is_greedy", False),
    )
    for token in line.get("tokens", ()):
        json_format.ParseDict(token, score.tokens.add())
    return score
