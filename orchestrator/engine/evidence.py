"""The evidence of an answer, for rules that need it: read from the log, for live and stored answers alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import json_format

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.limits import MAX_MESSAGE_BYTES
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.engine.trajectory import call_name
from orchestrator.run_folder.log import RunLog, State

MAX_BYTES = MAX_MESSAGE_BYTES // 2
"""Most evidence of an item; an item with more is sent without any."""
_IMAGES = "input_images"
_SUMMED = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def put_evidence(
    request: scorer.ScoreRequest, line: Mapping[str, Any], log: RunLog, needs: frozenset[str]
) -> scorer.ScoreRequest:
    """Adds to a ScoreRequest what its rule needs of the way to the answer, and returns it.

    Args:
        request: The request.
        line: The item's line of `responses.jsonl`. One of predictions made elsewhere has no evidence.
        log: The run folder.
        needs: `RuleInfo.needs` of the rule.
    """
    if not needs or not line.get("request") or "messages" not in line["request"]:
        return request
    read = _Reader(log, images=_IMAGES in needs)
    evidence, calls = scorer.Evidence(), list(_calls(line, log)) or [line]
    if needs & {"messages", _IMAGES}:
        evidence.messages.extend(read.messages(line["request"]))
    if "reasoning" in needs:
        evidence.reasoning = line["response"].get("reasoning", "")
    if "usage" in needs:
        _add_usage(evidence.usage, calls)
    if "steps" in needs:
        for number, call in enumerate(calls):
            after = calls[number + 1] if number + 1 < len(calls) else None
            evidence.steps.append(read.step(call, after))
    if evidence.ByteSize() <= MAX_BYTES:
        request.evidence.CopyFrom(evidence)
    return request


def _calls(line: Mapping[str, Any], log: RunLog) -> Iterator[Mapping[str, Any]]:
    """Yields the lines of the calls of an item with tools, in their order."""
    if not line.get("facts"):
        return
    ordinal = 1
    while (entry := log.entry(f"{line['sample']}:{call_name(ordinal, line['turn'])}")).state is State.ANSWERED:
        yield log.responses.read(entry.offset)
        ordinal += 1


def _add_usage(usage: model.Usage, calls: Sequence[Mapping[str, Any]]) -> None:
    for call in calls:
        for name in _SUMMED:
            count = int((call["response"].get("usage") or {}).get(name, 0))
            setattr(usage, name, getattr(usage, name) + count)


class _Reader:
    """Builds messages from their lines.

    Args:
        log: The run folder.
        images: Whether images come with their bytes.
    """

    def __init__(self, log: RunLog, *, images: bool) -> None:
        self._log, self._images = log, images

    def messages(self, request: Mapping[str, Any]) -> Iterator[model.Message]:
        """Yields the messages of a line's request."""
        for message in request["messages"]:
            yield self._message(message["parts"], model.Role.Value(message["role"]), message.get("reasoning", ""))

    def step(self, call: Mapping[str, Any], after: Mapping[str, Any] | None) -> scorer.Step:
        """Returns a call with the messages that the next call added."""
        response = call["response"]
        step = scorer.Step()
        if "parts" in response:
            reasoning = response.get("reasoning", "")
            step.answer.CopyFrom(self._message(response["parts"], model.ROLE_ASSISTANT, reasoning))
            step.finish_reason = model.FinishReason.Value(response["finish_reason"])
        if usage := response.get("usage"):
            json_format.ParseDict(usage, step.usage, ignore_unknown_fields=True)
        if after is not None and after.get("request"):
            step.next.extend(self.messages(after["request"]))
        return step

    def _message(self, parts: Sequence[Mapping[str, Any]], role: Any, reasoning: str) -> model.Message:
        return model.Message(role=role, parts=map(self._part, parts), reasoning=reasoning)

    def _part(self, part: Mapping[str, Any]) -> model.Part:
        if "text" in part:
            return model.Part(text=part["text"])
        ((kind, reference),) = part.items()
        if kind == "tool_call":
            return model.Part(tool_call=model.ToolCall(**reference))
        if kind == "tool_result":
            content = map(self._part, reference["content"])
            result = model.ToolResult(tool_call_id=reference["tool_call_id"], content=content)
            result.is_error = reference.get("is_error", False)
            return model.Part(tool_result=result)
        digest = bytes.fromhex(reference["sha256"])
        if kind == "image":
            data = self._log.images.get(reference["sha256"]) if self._images else b""
            return model.Part(image=model.Image(data=data, media_type=reference["media_type"], sha256=digest))
        clip = model.Part()
        getattr(clip, kind).sha256 = digest
        return clip
