"""One sample and its progress through its turns and their calls; the requests built from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import grpc
import orjson

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.data.rows import DataError
from orchestrator.engine import finishing
from orchestrator.engine.answer_lines import judged_line, output_of_line, tool_line
from orchestrator.engine.check import called_tool, check_clip, check_image, check_stated, cut_in_reasoning, is_cut
from orchestrator.engine.deviations import Deviations
from orchestrator.engine.lookups import LookupTrajectory
from orchestrator.engine.prepared import Episode, JudgedAnswer, PreparedRequest, UnsentOutcome
from orchestrator.engine.rounds import RoundsTrajectory
from orchestrator.engine.sent import LEAST_BYTES
from orchestrator.engine.trajectory import CONTEXT_LIMIT, Done, Equipped, Play, Trajectory, call_name
from orchestrator.engine.wire import Response, is_repeat, request_of
from orchestrator.errors import EngineError
from orchestrator.run_folder.cut import CUT_REASONING
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.lines import ResponseLine, raw
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.parts import Medium
from orchestrator.run_folder.records import answer_of_line, request_json, score_request, scoring_json
from orchestrator.samples import Answer, BadRowError, Call, Clip, NoAnswerError, Rounds
from orchestrator.tools.types import RemoteCall, ToolOutput

T = TypeVar("T")


_CUT = UnsentOutcome(
    Outcome.UNPARSED, CUT_REASONING, "the limit of output tokens ended the reasoning, and no answer was begun"
)
_TOOL_CALL = UnsentOutcome(Outcome.UNPARSED, "tool_call", "the model called a tool in place of an answer")


def without_answer(response: Response) -> UnsentOutcome | None:
    """Returns why a response has no answer to score, None if it has one."""
    if cut_in_reasoning(response):
        return _CUT
    return _TOOL_CALL if called_tool(response) else None


def beyond_context(episode: Episode, error: CallError) -> UnsentOutcome | None:
    """Returns the outcome of a trajectory whose next request exceeds the context; None for other failures."""
    under_way = episode.trajectory is not None and episode.trajectory.answered
    if not under_way or error.code is not grpc.StatusCode.OUT_OF_RANGE:
        return None
    return UnsentOutcome(Outcome.UNPARSED, CONTEXT_LIMIT, str(error))


def build(
    episode: Episode, log: RunLog, changes: Deviations, server: Callable[[str], model.GetModelInfoResponse]
) -> PreparedRequest | JudgedAnswer | UnsentOutcome:
    """Builds the next call: reads its images, stores them, and renders its line for the log.

    Runs in a Worker: in the event loop or in a thread beside it.

    Args:
        episode: The sample and its progress.
        log: The run folder.
        changes: The run's changes to requests.
        server: Returns the description of the model that serves a stage.

    Raises:
        OSError: If an image cannot be stored.
        RunLogError: If an earlier turn's line is damaged.
        UserError: If a package is missing by which a clip is read.
        EngineError: If the benchmark fails; it names the sample.
    """
    return _attempted(_built, episode, log, changes, server)


class ToolLine(NamedTuple):
    """Key and line of a tool's result, and whether it is an error."""

    key: str
    line: bytes
    is_error: bool


def run_tools(episode: Episode, log: RunLog, changes: Deviations) -> list[ToolLine] | UnsentOutcome:
    """Runs the tools that the last answer calls, up to one of a server, which is then pending; returns the results.

    Runs and raises as `build`.
    """
    return _attempted(lambda *args: list(_tool_lines(*args)), episode, log, changes)


def take_output(episode: Episode, log: RunLog, output: ToolOutput) -> ToolLine:
    """Takes the output of the next tool call of a trajectory under way; returns its line. Raises as `build`."""
    trajectory = episode.trajectory
    assert trajectory is not None
    number = trajectory.left.start
    name = call_name(trajectory.answered, episode.turn.name, number + 1)
    key = episode.sample.call_key(name)
    store = partial(_stored_picture, log, trajectory.names)
    line = tool_line(key, name, episode, trajectory.calls[number], output, store)
    trajectory.add_output(output)
    return ToolLine(key, line, output.is_error)


def _attempted(work: Callable[..., T], episode: Episode, *args: object) -> T | UnsentOutcome:
    try:
        return work(episode, *args)
    except NoAnswerError as error:
        return UnsentOutcome(Outcome.UNPARSED, error.reason, str(error))
    except BadRowError as error:
        return UnsentOutcome(Outcome.REJECTED, error.reason, str(error))
    except DataError as error:
        return UnsentOutcome(Outcome.REJECTED, "unreadable_row", str(error))
    except (OSError, RunLogError, UserError):
        raise
    except Exception as error:
        raise EngineError(f"benchmark of {episode.key}: {type(error).__name__}: {error}") from error


def _built(
    episode: Episode, log: RunLog, changes: Deviations, server: Callable[[str], model.GetModelInfoResponse]
) -> PreparedRequest | JudgedAnswer | UnsentOutcome:
    turn, key, begun = episode.turn, episode.key, None
    answers = [_answer(answer, log) for answer in episode.answers]
    after_cut = bool(answers) and _follows_cut(answers, episode)
    trajectory = _trajectory(episode, answers, log, changes) if turn.play else None
    if trajectory is None:
        call, new = changes.first(turn, answers, key), None
    else:
        step = trajectory.step(server(trajectory.stage))
        if isinstance(step, Done):
            return _judged(episode, trajectory, step, after_cut)
        call, new = step.call, step.new
    info = server(call.stage)
    if episode.begun is not None:
        call, begun = finishing.applied(call, log.responses.read(episode.begun), changes.finish_cut, info)
    check_stated(call, info)
    digests: list[bytes] = trajectory.digests if trajectory else []
    names = trajectory.names if trajectory else {}
    if new == len(call.messages):
        digests.clear()  # a separate conversation
    store = partial(_stored, log, info.media_limits.max_image_pixels, digests, names)
    line_request = raw(request_json(_new_part(call, new), store))
    request = request_of(call, digests)
    scoring, name = scoring_json(turn.scoring), turn.name
    if trajectory:
        ordinal = trajectory.answered + 1
        scoring, name = None, call_name(ordinal, turn.name)
        key = episode.sample.call_key(name)
        if ordinal == 1:
            trajectory.first_line = bytes(line_request)
    line = ResponseLine(
        key=key,
        sample=episode.sample.key,
        turn=name,
        task=episode.task,
        method=request.method.lower(),
        request=line_request,
        attempts=0,
        after_cut=after_cut,
        scoring=raw(scoring),
    )
    return PreparedRequest(
        episode=episode,
        key=key,
        request=request,
        stage=call.stage,
        line=line,
        scoring=scoring,
        score=score_request(key, scoring) if scoring else None,
        begun=begun,
    )


def _follows_cut(answers: Sequence[Answer], episode: Episode) -> bool:
    """Returns whether the output limit ended an earlier answer that only prepares others."""
    before = zip(answers, episode.sample.turns, strict=False)
    return any(earlier.scoring is None and is_cut(answer) for answer, earlier in before)


def _new_part(call: Call, new: int | None) -> Call:
    """Returns a call with its last so many messages, which are new since the previous request; None stands for all."""
    first = 0 if new is None else len(call.messages) - new
    return replace(call, messages=call.messages[first:]) if first else call


def _trajectory(episode: Episode, answers: Sequence[Answer], log: RunLog, changes: Deviations) -> Trajectory:
    """Returns the calls of the next turn so far, taken from the log where an earlier process made some."""
    if episode.trajectory:
        return episode.trajectory
    turn, key = episode.turn, episode.key
    call = changes.seen(turn.ask(answers))
    decoded = partial(changes.decoded, key=key, scoring=turn.scoring)
    trajectory: Trajectory
    if isinstance(turn.play, Rounds):
        trajectory = RoundsTrajectory(turn.play, call, key, decoded)
    elif isinstance(turn.play, Equipped):
        trajectory = LookupTrajectory(turn.play, call, key, decoded)
    else:
        assert isinstance(turn.play, Play)
        trajectory = Trajectory(turn.play, call, key, decoded)
    for number, logged in enumerate(episode.logged):
        line = log.responses.read(logged.offset)
        if not number:
            trajectory.first_line = orjson.dumps(line["request"])
        else:
            trajectory.step(model.GetModelInfoResponse())
        trajectory.add_answer(answer_of_line(line, log.images.get))
        for offset in logged.tools:
            trajectory.add_output(output_of_line(log.responses.read(offset), log.images.get))
    if episode.beyond:
        trajectory.end_of_context(episode.beyond)
    if episode.logged:
        trajectory.digests += map(_digest, trajectory.media)
    episode.trajectory, episode.logged = trajectory, ()
    return trajectory


def _tool_lines(episode: Episode, log: RunLog, changes: Deviations) -> Iterator[ToolLine]:
    trajectory = _trajectory(episode, [_answer(answer, log) for answer in episode.answers], log, changes)
    for number in trajectory.left:
        output = trajectory.run(number)
        if isinstance(output, RemoteCall):
            trajectory.pending = output
            return
        yield take_output(episode, log, output)


def _judged(episode: Episode, trajectory: Trajectory, end: Done, after_cut: bool) -> JudgedAnswer | UnsentOutcome:
    if episode.turn.scoring:
        trajectory.search(episode.turn.scoring.labels)
    if end.answer is None:
        return UnsentOutcome(Outcome.UNPARSED, end.reason, end.detail)
    scoring, key = scoring_json(episode.turn.scoring) or {}, episode.key
    score = score_request(key, scoring)
    score.facts.update(trajectory.facts)
    line = judged_line(episode, trajectory, end.answer, after_cut)
    return JudgedAnswer(line, end.answer, scoring, score, after_cut or is_cut(end.answer))


def prompts_of(built: Sequence[PreparedRequest | JudgedAnswer | UnsentOutcome]) -> list[object]:
    """Returns for each request one object that it shares with the repeats of its prompt beside it; None without any.

    Repeats follow each other, and their seeds count up.
    """
    prompts: list[object] = [None] * len(built)
    start = 0
    for end in range(1, len(built) + 1):
        first, this = built[start], built[end] if end < len(built) else None
        if (
            isinstance(first, PreparedRequest)
            and isinstance(this, PreparedRequest)
            and _repeats(this, first, end - start)
        ):
            continue
        if end - start > 1:
            prompts[start:end] = [object()] * (end - start)
        start = end
    return prompts


def _repeats(this: PreparedRequest, first: PreparedRequest, number: int) -> bool:
    same = split_repeat(this.key)[0] == split_repeat(first.key)[0] and this.stage == first.stage
    return same and is_repeat(this.request, first.request, number)


def _stored_picture(log: RunLog, names: dict[int, str], medium: Medium) -> str:
    """Stores an image that a tool made; the next request has the same bytes, which are not hashed again."""
    name = names[id(medium.data)] = log.images.put(medium.data, check_image)
    return name


def _stored(log: RunLog, most_pixels: int, digests: list[bytes], names: Mapping[int, str], medium: Medium) -> str:
    """Stores a request's image or clip, unless it has a name; adds the hash by which it may be sent."""
    if id(medium.data) in names:
        name = names[id(medium.data)]
    elif isinstance(medium, Clip):
        name = log.images.put(medium.data, partial(check_clip, medium.kind))
    else:
        name = log.images.put(medium.data, partial(check_image, most_pixels=most_pixels))
    digests.append(bytes.fromhex(name) if len(medium.data) >= LEAST_BYTES else b"")
    return name


def _digest(medium: Medium) -> bytes:
    return hashlib.sha256(medium.data).digest() if len(medium.data) >= LEAST_BYTES else b""


def _answer(answer: Answer | int, log: RunLog) -> Answer:
    return answer if isinstance(answer, Answer) else answer_of_line(log.responses.read(answer), log.images.get)
