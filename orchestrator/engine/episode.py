"""One sample and its progress through its turns; the requests built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.data.rows import DataError
from orchestrator.engine import finishing
from orchestrator.engine.check import called_tool, check_clip, check_image, check_stated, cut_in_reasoning, is_cut
from orchestrator.engine.deviations import Deviations
from orchestrator.engine.dispatch import Result
from orchestrator.engine.finishing import Begun
from orchestrator.engine.sent import LEAST_BYTES
from orchestrator.engine.wire import Request, Response, is_repeat, request_of
from orchestrator.errors import EngineError
from orchestrator.run_folder.cut import CUT_REASONING
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.lines import Failure, Origin, ResponseLine, encode, raw
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.parts import Medium, StoreMedium
from orchestrator.run_folder.records import (
    answer_of_line,
    request_json,
    response_json,
    score_request,
    scoring_json,
)
from orchestrator.samples import Answer, BadRowError, Clip, NoAnswerError, Sample, Turn


@dataclass(slots=True, eq=False)
class Episode:
    """A sample and its progress.

    Attributes:
        sample: The sample.
        answers: The answers to its earlier turns; for one that an earlier process got, where
            its line begins, read only if a later turn asks.
        begun: Where the line of a cut answer to the next turn begins that is to be finished; None without one.
    """

    sample: Sample
    answers: list[Answer | int] = field(default_factory=list)
    begun: int | None = None

    @property
    def task(self) -> str:
        """The task's name, which begins every key."""
        return self.sample.key.split("/", 1)[0]

    @property
    def turn(self) -> Turn:
        """The turn that is next."""
        return self.sample.turns[len(self.answers)]

    @property
    def key(self) -> str:
        """The key of the turn that is next."""
        return self.sample.item_key(self.turn)

    @property
    def answered_key(self) -> str | None:
        """The key of the turn that was answered last, None before the first answer."""
        return self.sample.item_key(self.sample.turns[len(self.answers) - 1]) if self.answers else None

    @property
    def over(self) -> bool:
        """Whether every turn has its answer."""
        return len(self.answers) == len(self.sample.turns)


@dataclass(slots=True, eq=False)
class PreparedRequest:
    """A turn ready to be sent.

    Attributes:
        line: The line of the log, without what becomes of the request.
        scoring: How the answer is scored; None for a turn that only prepares another.
        score: The ScoreRequest, but for the answer; None likewise.
        begun: The cut answer that it finishes; None for any other request.
    """

    episode: Episode
    key: str
    request: Request
    stage: str
    line: ResponseLine
    scoring: dict[str, Any] | None
    score: scorer.ScoreRequest | None
    begun: Begun | None = None


@dataclass(frozen=True, slots=True)
class UnsentOutcome:
    """The outcome of a turn without an answer, and its reason."""

    outcome: Outcome
    reason: str
    detail: str


_CUT = UnsentOutcome(
    Outcome.UNPARSED, CUT_REASONING, "the limit of output tokens ended the reasoning, and no answer was begun"
)
_TOOL_CALL = UnsentOutcome(Outcome.UNPARSED, "tool_call", "the model called a tool in place of an answer")


def without_answer(response: Response) -> UnsentOutcome | None:
    """Returns why a response has no answer to score, None where it has one."""
    if cut_in_reasoning(response):
        return _CUT
    return _TOOL_CALL if called_tool(response) else None


def build(
    episode: Episode, log: RunLog, changes: Deviations, server: Callable[[str], model.GetModelInfoResponse]
) -> PreparedRequest | UnsentOutcome:
    """Builds the next turn: reads its images, stores them, and renders what the log will say.

    Runs in a Worker: in the event loop or in a thread beside it.

    Args:
        episode: The sample and its progress.
        log: The run folder.
        changes: What the run changes in requests.
        server: Returns the description of the model that serves a stage.

    Raises:
        OSError: If an image cannot be stored.
        RunLogError: If an earlier turn's line is damaged.
        UserError: If a package is missing by which a clip is read.
        EngineError: If the benchmark fails; it names the sample.
    """
    turn, key = episode.turn, episode.key
    try:
        answers = [_answer(answer, log) for answer in episode.answers]
        call, begun = changes.applied(turn.ask(answers), key, turn.scoring), None
        info = server(call.stage)
        if episode.begun is not None:
            call, begun = finishing.applied(call, log.responses.read(episode.begun), changes.finish_cut, info)
        check_stated(call, info)
        digests: list[bytes] = []
        store = partial(_stored, log, info.media_limits.max_image_pixels, digests)
        line_request = raw(request_json(call, store))
        request = request_of(call, digests)
    except NoAnswerError as error:
        return UnsentOutcome(Outcome.UNPARSED, error.reason, str(error))
    except BadRowError as error:
        return UnsentOutcome(Outcome.REJECTED, error.reason, str(error))
    except DataError as error:
        return UnsentOutcome(Outcome.REJECTED, "unreadable_row", str(error))
    except (OSError, RunLogError, UserError):
        raise
    except Exception as error:
        raise EngineError(f"benchmark of {key}: {type(error).__name__}: {error}") from error
    scoring = scoring_json(turn.scoring)
    before = zip(answers, episode.sample.turns, strict=False)
    line = ResponseLine(
        key=key,
        sample=episode.sample.key,
        turn=turn.name,
        task=episode.task,
        method=request.method.lower(),
        request=line_request,
        attempts=0,
        after_cut=any(earlier.scoring is None and is_cut(answer) for answer, earlier in before),
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


def prompts_of(built: Sequence[PreparedRequest | UnsentOutcome]) -> list[object]:
    """Returns for each request one object that it shares with the repeats of its prompt beside it; None without any.

    Repeats stand one behind the other, and their seeds count up.
    """
    found: list[object] = [None] * len(built)
    start = 0
    for place in range(1, len(built) + 1):
        first, this = built[start], built[place] if place < len(built) else None
        if (
            isinstance(first, PreparedRequest)
            and isinstance(this, PreparedRequest)
            and _repeats(this, first, place - start)
        ):
            continue
        if place - start > 1:
            found[start:place] = [object()] * (place - start)
        start = place
    return found


def _repeats(this: PreparedRequest, first: PreparedRequest, place: int) -> bool:
    same = split_repeat(this.key)[0] == split_repeat(first.key)[0] and this.stage == first.stage
    return same and is_repeat(this.request, first.request, place)


def unsent_line(key: str, episode: Episode, turn: Turn, ended: UnsentOutcome) -> bytes:
    """Returns the line of a turn for which no request was made."""
    line = ResponseLine(
        key=key,
        outcome=ended.outcome,
        sample=episode.sample.key,
        turn=turn.name,
        task=episode.task,
        request=raw(None),
        error=Failure("", ended.reason, ended.detail),
        attempts=0,
        scoring=raw(scoring_json(turn.scoring)),
    )
    return encode(line)


def response_line(prepared: PreparedRequest, result: Result, ended: UnsentOutcome | None, store: StoreMedium) -> bytes:
    """Returns the line of `responses.jsonl` for a request and what became of it.

    Args:
        prepared: The request.
        result: Its response or failure.
        ended: The outcome, where there is no answer to score.
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
    """Returns a time as RFC 3339 has it, in UTC, to the millisecond."""
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _stored(log: RunLog, most_pixels: int, digests: list[bytes], medium: Medium) -> str:
    """Stores a request's image or clip; adds the hash by which it may be sent."""
    if isinstance(medium, Clip):
        name = log.images.put(medium.data, partial(check_clip, medium.kind))
    else:
        name = log.images.put(medium.data, partial(check_image, most_pixels=most_pixels))
    digests.append(bytes.fromhex(name) if len(medium.data) >= LEAST_BYTES else b"")
    return name


def _answer(answer: Answer | int, log: RunLog) -> Answer:
    return answer if isinstance(answer, Answer) else answer_of_line(log.responses.read(answer), log.images.get)
