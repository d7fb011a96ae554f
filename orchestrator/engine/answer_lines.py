"""The lines of `responses.jsonl` that the engine writes: of calls, tool outputs and answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from lyncean.model.v1 import model_pb2 as model
from orchestrator.engine.jobs import Result
from orchestrator.engine.trajectory import CALL_LIMIT, CONTEXT_LIMIT
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import Failure, Origin, ResponseLine, encode, raw
from orchestrator.run_folder.parts import LoadImage, StoreMedium, part_json, part_of, tool_call_json
from orchestrator.run_folder.records import response_json, scoring_json
from orchestrator.samples import Answer, ToolCall, Turn, image_part
from orchestrator.tools.types import Picture, RemoteCall, ToolOutput

if TYPE_CHECKING:
    from orchestrator.engine.prepared import Episode, PreparedRequest, UnsentOutcome
    from orchestrator.engine.trajectory import Trajectory


def unsent_line(episode: Episode, turn: Turn, ended: UnsentOutcome) -> bytes:
    """Returns the line of a turn for which no request was made, or none by itself: its calls have their own."""
    line = _line(episode, turn, episode.trajectory if turn is episode.turn else None)
    line.outcome, line.facts = ended.outcome, limited_facts(episode, turn, ended)
    line.error = Failure("", ended.reason, ended.detail)
    return encode(line)


def limited_facts(episode: Episode, turn: Turn, ended: UnsentOutcome) -> dict[str, float]:
    """Returns the facts of a trajectory that met its limit; one that a failed call ended has none, resumed or not."""
    limited = turn is episode.turn and ended.reason in (CALL_LIMIT, CONTEXT_LIMIT)
    trajectory = episode.trajectory if limited else None
    return dict(trajectory.facts) if trajectory else {}


def judged_line(episode: Episode, trajectory: Trajectory, answer: Answer, after_cut: bool) -> bytes:
    """Returns the line of a turn with tools that has its answer: its first request, and the text that is judged."""
    line = _line(episode, episode.turn, trajectory)
    line.method, line.after_cut = "likelihood" if answer.scores else "generate", after_cut
    if answer.scores:
        line.response = raw(response_json(model.LikelihoodResponse(scores=answer.scores), lambda _: ""))
        return encode(line)
    finish = model.FinishReason.Name(answer.finish_reason)
    response: dict[str, Any] = {"parts": [{"text": answer.text}], "finish_reason": finish}
    line.response = raw(response | ({"reasoning": answer.reasoning} if answer.reasoning else {}))
    return encode(line)


def _line(episode: Episode, turn: Turn, trajectory: Trajectory | None) -> ResponseLine:
    return ResponseLine(
        key=episode.sample.item_key(turn),
        sample=episode.sample.key,
        turn=turn.name,
        task=episode.task,
        request=Raw(trajectory.first_line) if trajectory and trajectory.first_line else raw(None),
        attempts=0,
        facts=dict(trajectory.facts) if trajectory else {},
        scoring=raw(scoring_json(turn.scoring)),
    )


def tool_line(key: str, name: str, episode: Episode, call: ToolCall, output: ToolOutput, store: StoreMedium) -> bytes:
    """Returns the line of a tool call and its output.

    Args:
        key: Its key.
        name: Its name among the lines of the sample.
        episode: The sample.
        call: The call.
        output: Its output.
        store: Stores its images.
    """
    fields: dict[str, Any] = {
        **tool_call_json(call),
        "content": [_piece_json(piece, store) for piece in output.content],
    }
    if output.is_error:
        fields["is_error"] = True
    if output.facts:
        fields["facts"] = dict(output.facts)
    if sent := output.remote:
        sent_fields = {"server": sent.server, "name": sent.name, "arguments": sent.arguments}
        known = {"name": call.name, "arguments": call.arguments}
        fields["remote"] = {name: value for name, value in sent_fields.items() if value != known.get(name)}
    line = ResponseLine(
        key=key,
        sample=episode.sample.key,
        turn=name,
        task=episode.task,
        request=raw(None),
        attempts=0,
        tool=raw(fields),
        scoring=raw(None),
    )
    return encode(line)


def output_of_line(line: Mapping[str, Any], load: LoadImage) -> ToolOutput:
    """Returns the output of a tool call.

    Raises:
        RunLogError: If the line is damaged.
        FileNotFoundError: If an image is missing.
    """
    try:
        fields = line["tool"]
        content = tuple(_piece_of(piece, load) for piece in fields["content"])
        remote = {**fields["tool_call"], **fields["remote"]} if "remote" in fields else None
        sent = RemoteCall(remote["server"], remote["name"], remote.get("arguments", "")) if remote else None
        return ToolOutput(content, fields.get("is_error", False), fields.get("facts") or {}, sent)
    except (KeyError, TypeError, ValueError) as error:
        raise RunLogError(f"the line of {line.get('key')!r} in {RESPONSES} is damaged ({error!r})") from error


def _piece_json(piece: Any, store: StoreMedium) -> dict[str, Any]:
    if not isinstance(piece, Picture):
        return part_json(piece, store)
    origin = {"source": piece.source, **({"box": list(piece.box)} if piece.box else {})}
    origin |= {"source_size": list(piece.source_size)} if piece.source_size else {}
    return part_json(image_part(piece.data), store) | origin


def _piece_of(line: Mapping[str, Any], load: LoadImage) -> Any:
    if "source" not in line:
        return part_of(line, load)
    box, size = (tuple(numbers) if (numbers := line.get(name)) else None for name in ("box", "source_size"))
    return Picture(load(line["image"]["sha256"]), source=line["source"], box=box, source_size=size)


def response_line(prepared: PreparedRequest, result: Result, ended: UnsentOutcome | None, store: StoreMedium) -> bytes:
    """Returns the line of `responses.jsonl` for a request and its outcome.

    Args:
        prepared: The request.
        result: Its response or failure.
        ended: The outcome if no answer is to be scored, else None.
        store: Stores the answer's images.
    """
    line = prepared.line
    if result.response is not None:
        line.response = raw(response_json(result.response, store))
    if ended:
        line.outcome = ended.outcome
        code = result.error.code.name if result.error else "OK"
        line.error = Failure(code, ended.reason, ended.detail)
    line.replica = result.replica
    if result.response is not None and result.response.HasField("served_by"):
        served_by = result.response.served_by
        line.boot_id = served_by.boot_id
        if served_by.endpoint_model or served_by.endpoint_fingerprint:
            line.endpoint = Origin(served_by.endpoint_model, served_by.endpoint_fingerprint)
    line.attempts = result.job.attempts
    line.seconds = round(result.seconds, 6)
    line.started = _stamp(result.started)
    return encode(line)


def _stamp(seconds: float) -> str:
    """Returns a time in RFC 3339 format, in UTC, to the millisecond."""
    second = int(seconds)
    return f"{_second(second)}.{int((seconds - second) * 1000):03d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
