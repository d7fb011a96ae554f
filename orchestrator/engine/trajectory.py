"""The calls by which a model comes to one answer: each request follows from the answers and results so far."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.limits import MAX_MESSAGE_BYTES
from lyncean.vocabulary.facts import AT_LIMIT, CALLS, OUTPUT_TOKENS, REASONING_TOKENS, TOOL_CALLS, TOOL_ERRORS
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.tool_results import MAX_HISTORY, result_sha256
from orchestrator.errors import ConfigError
from orchestrator.samples import (
    Answer,
    BadRowError,
    Call,
    Clip,
    Image,
    Lookups,
    Message,
    Part,
    Rounds,
    Sample,
    ToolCall,
    ToolResult,
    Turn,
    image_part,
    media_of,
)
from orchestrator.tools.arguments import tool_error
from orchestrator.tools.search import search_facts
from orchestrator.tools.types import Picture, RemoteCall, ToolOutput, stored_pictures

if TYPE_CHECKING:
    from orchestrator.engine.tool_server import ToolServer
    from orchestrator.tools.toolbox import Toolbox

CALL_LIMIT, CONTEXT_LIMIT = "call_limit", "context_limit"
"""Reasons of an item whose trajectory met its limit, or the model's context, before the model answered."""


@dataclass(frozen=True, slots=True)
class Play:
    """Tools that the models of a run may call while they answer.

    Attributes:
        box: The tools, and the form of their calls.
        max_calls: Requests to the model of one trajectory at most.
        names: The tools by their names in `--tools`.
        servers: The servers of tools among them, once they are asked.
        max_tokens: Output tokens of a trajectory after which no further request is made; unbounded if 0.
    """

    box: Toolbox
    max_calls: int
    names: tuple[str, ...]
    servers: tuple[ToolServer, ...] = ()
    max_tokens: int = 0

    def first(self, call: Call) -> Call:
        """Returns the first request of a trajectory for a task's own one."""
        return self.box.protocol.first(call, self.box.tools)


@dataclass(frozen=True, slots=True)
class Equipped:
    """A task's lookups with the tools of the run.

    Attributes:
        lookups: The task's.
        play: The run's.
    """

    lookups: Lookups
    play: Play

    @property
    def max_calls(self) -> int:
        """Calls at most."""
        return self.lookups.max_calls

    def first(self, call: Call) -> Call:
        """Returns the first request: the turn's own."""
        return call


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that is to be made.

    Attributes:
        call: The request.
        new: Its messages that the one before does not have, all of them for the first.
        ordinal: Its number in the trajectory, from 1.
    """

    call: Call
    new: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a trajectory.

    Attributes:
        answer: The answer that is judged; None where the trajectory met a limit without one.
        detail: The limit, in words.
        reason: Reason of an item without an answer.
    """

    answer: Answer | None
    detail: str = ""
    reason: str = CALL_LIMIT


def with_tools(sample: Sample, play: Play | None) -> Sample:
    """Returns a sample whose scored turns may call tools.

    Raises:
        ConfigError: If its task asks in rounds of its own.
    """
    if any(isinstance(turn.play, Lookups) for turn in sample.turns):
        return replace(sample, turns=tuple(map(partial(_equipped, play=play), sample.turns)))
    if play is None:
        return sample
    if any(turn.play for turn in sample.turns):
        raise ConfigError(f"{sample.key}: its task asks in rounds of its own: leave out --tools")
    return replace(sample, turns=tuple(replace(turn, play=play) if turn.scoring else turn for turn in sample.turns))


def _equipped(turn: Turn, play: Play | None) -> Turn:
    """Returns a turn whose task calls a tool of the run itself, with the tools; another one as it is."""
    if not isinstance(turn.play, Lookups):
        return turn
    return replace(turn, play=Equipped(turn.play, play) if play else turn.play)


def call_name(ordinal: int, turn: str, tool: int | None = None) -> str:
    """Returns the name, in its sample, of a call of a turn, or of a tool that it called; both are counted from 1."""
    name = f"call{ordinal}" if tool is None else f"call{ordinal}-tool{tool}"
    return f"{turn}-{name}" if turn else name


class Trajectory:
    """The calls of one item so far. The same answers and results lead to the same next request.

    Args:
        play: The tools, the task's rounds, or its lookups with the tools.
        call: The task's own request, without what the run hides from the model: tools see its images.
        key: The item's key, on which seeds depend.
        decoded: Applies the run's decoding to a request.

    Raises:
        BadRowError: If the request does not ask for text.
    """

    def __init__(self, play: Play | Rounds | Equipped, call: Call, key: str, decoded: Callable[[Call], Call]) -> None:
        if call.continuations or call.modality == model.MODALITY_IMAGE:
            raise BadRowError("no_text", "tools are for answers in words, and this request asks for something else")
        self._given, self._key = play, key
        self._call = decoded(play.first(call))
        self._seed = self._call.config.seed if self._call.config.HasField("seed") else None
        self.pictures = play.box.protocol.pictures(call) if isinstance(play, Play) else stored_pictures(call)
        self._new = len(self._call.messages)
        self._answer: Answer | None = None
        self._last: Answer | None = None
        self._results: list[ToolResult] = []
        self.pending: RemoteCall | None = None
        self.picture_digests: list[bytes] = []
        # Calls of servers, with the images at that time and the result's hash.
        self.made: list[tuple[RemoteCall, int, bytes]] = []
        self._ended: Done | None = None
        self.answered = 0
        self.calls: tuple[ToolCall, ...] = ()
        self.digests: list[bytes] = []
        self.first_line: bytes = b""
        self.names: dict[int, str] = {}  # of stored pictures, by the identity of their bytes, which are held here
        names = CALLS, TOOL_CALLS, TOOL_ERRORS, OUTPUT_TOKENS, REASONING_TOKENS
        self.facts: dict[str, float] = dict.fromkeys(names, 0)

    @property
    def _play(self) -> Play:
        assert isinstance(self._given, Play)
        return self._given

    @property
    def stage(self) -> str:
        """The stage whose model answers."""
        return self._call.stage

    @property
    def media(self) -> list[Image | Clip]:
        """Images and clips of the last request, in their order."""
        return list(media_of(self._call.messages))

    def search(self, labels: Mapping[str, str]) -> None:
        """Adds to the facts how well crops met the boxes that an item's labels name."""
        self.facts |= search_facts(labels, self.pictures)

    @property
    def left(self) -> range:
        """Indices in `calls` of tool calls that have no result yet."""
        return range(len(self._results), len(self.calls))

    def add_answer(self, answer: Answer) -> None:
        """Takes the answer to the last request; `calls` are the tool calls that are to be made for it."""
        self.answered += 1
        self.facts[CALLS] += 1
        self.facts[OUTPUT_TOKENS] += answer.tokens[0]
        self.facts[REASONING_TOKENS] += answer.tokens[1]
        self._answer = self._last = answer
        self._results, self.calls = [], ()
        if len(answer.shown) == len(self.pictures):
            pairs = zip(self.pictures, answer.shown, strict=True)
            self.pictures = [replace(picture, shown=size) for picture, size in pairs]
        self._take(answer)

    def _take(self, answer: Answer) -> None:
        protocol = self._play.box.protocol
        if protocol.judged_at_limit:
            self.facts[AT_LIMIT] = 0
        calls = protocol.read(answer)
        if not calls and not protocol.again(answer):
            self._ended = Done(protocol.final(answer))
        elif self.answered >= self._play.max_calls:
            self._ended = self._limited(f"{self.answered:,} calls")
        elif (most := self._play.max_tokens) and self.facts[OUTPUT_TOKENS] >= most:
            self._ended = self._limited(f"{most:,} output tokens")
        else:
            self.calls = calls

    def end_of_context(self, detail: str) -> None:
        """Ends the trajectory: its last request was refused, in the server's words, since it is beyond the context."""
        self._ended = replace(self._limited("the context"), detail=detail, reason=CONTEXT_LIMIT)

    def run(self, number: int) -> ToolOutput | RemoteCall:
        """Makes a tool call and returns its output, or the call that a server is to make."""
        output = self._play.box.protocol.call(self.calls[number], self._play.box.tools, self.pictures)
        if (
            isinstance(output, RemoteCall)
            and sum(call.server == output.server for call, *_ in self.made) >= MAX_HISTORY
        ):
            return tool_error("The call was not run: {most} were run before.", most=f"{MAX_HISTORY:,}")
        return output

    def add_output(self, output: ToolOutput) -> None:
        """Takes the output of the next tool call."""
        self.pending = None
        call = self.calls[len(self._results)]
        self._results.append(ToolResult(call.id, tuple(parts_of(output)), output.is_error))
        if output.remote:
            pieces = (part.text if part.image is None else part.image.data for part in self._results[-1].content)
            self.made.append((output.remote, len(self.pictures), result_sha256(pieces, output.is_error)))
        self.pictures += [piece for piece in output.content if isinstance(piece, Picture)]
        self.facts[TOOL_CALLS] += 1
        self.facts[TOOL_ERRORS] += output.is_error

    def step(self, info: model.GetModelInfoResponse) -> Ask | Done:
        """Returns the next request, or the end.

        Args:
            info: The model: a request that it would refuse to read ends the trajectory.
        """
        if self._answer is None or self._ended:
            return self._ended or Ask(self._call, self._new, 1)
        return self._next(self._answer, info)

    def _next(self, answer: Answer, info: model.GetModelInfoResponse) -> Ask | Done:
        turn = self.answered - 1
        added = self._play.box.protocol.next(answer, self._results, turn) if self.calls else ()
        if self.calls and added == ():
            return Done(self._play.box.protocol.final(answer))
        added = added or ()
        return self._asked((*self._call.messages, *added), len(added), info)

    def _asked(self, messages: tuple[Message, ...], new: int, info: model.GetModelInfoResponse) -> Ask | Done:
        """Returns the next request, the last `new` messages of which are new, unless it passes a limit."""
        call = replace(self._call, messages=messages, config=self._config())
        if limit := _too_much(call, info):
            return self._limited(limit)
        self._call, self._answer, self._new = call, None, new
        return Ask(call, self._new, self.answered + 1)

    def _config(self) -> model.GenerationConfig:
        """Returns the decoding with the next call's own seed, which another attempt does not change."""
        if self._seed is None:
            return self._call.config
        config = model.GenerationConfig()
        config.CopyFrom(self._call.config)
        bare, repeat = split_repeat(self._key)
        text = f"{(self._seed - repeat) % 2**64}|{bare}|{self.answered + 1}"
        config.seed = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1) + repeat
        return config

    def _limited(self, limit: str) -> Done:
        assert self._last is not None
        protocol = self._play.box.protocol
        detail = f"the trajectory met its limit of {limit} before the model answered"
        if not protocol.judged_at_limit:
            return Done(None, detail)
        self.facts[AT_LIMIT] = 1
        return Done(protocol.final(self._last), detail)


def parts_of(output: ToolOutput) -> Iterator[Part]:
    """Yields a tool's output as parts of a message."""
    for piece in output.content:
        yield image_part(piece.data) if isinstance(piece, Picture) else piece


def _too_much(call: Call, info: model.GetModelInfoResponse) -> str:
    """Returns the limit that a further request would pass, as text; "" if it passes none."""
    media = list(media_of(call.messages))
    images = sum(isinstance(medium, Image) for medium in media)
    if (most := info.media_limits.max_images) and images > most:
        return f"{most:,} images"
    size = sum(len(medium.data) for medium in media)
    limit = info.max_request_bytes or MAX_MESSAGE_BYTES
    return f"{limit:,} bytes of images" if size > limit else ""
