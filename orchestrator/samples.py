"""Samples, the input of the engine: a benchmark turns each row of data into samples.

Everything here is plain data and small functions. Media are read when a call is built, not
when a sample is: a resumed run passes over what was answered without touching an image.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from google.protobuf import json_format

from lyncean.media.types import Kind, clip_type, media_type
from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    SettingsT = TypeVarWithDefault("SettingsT", default=Any)
else:
    SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True)
class Image:
    """An encoded image: the file's own bytes, and what they are."""

    data: bytes = field(repr=False)
    media_type: str


@dataclass(frozen=True, slots=True)
class Clip:
    """An encoded audio or video file.

    Attributes:
        data: The file's own bytes.
        about: The part without its bytes: media type, span, and how frames are sampled.
    """

    data: bytes = field(repr=False)
    about: model.Audio | model.Video

    @property
    def kind(self) -> Kind:
        """The kind: name of the part's field."""
        return "audio" if isinstance(self.about, model.Audio) else "video"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by a model: data, which nothing here runs.

    Attributes:
        id: Unique among the calls of a conversation.
        name: The tool's name as the model wrote it.
        arguments: JSON text as the model wrote it, valid or not.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        tool_call_id: The call's id.
        content: Texts and images, in the order in which the model is to see them.
        is_error: Whether the content is an error message for the model to read.
    """

    tool_call_id: str
    content: tuple[Part, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message: the one of the others that is set, else the text."""

    text: str = ""
    image: Image | None = None
    clip: Clip | None = None
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: Whose.
        parts: What it says.
        reasoning: What the model reasoned before that, in an answer that it is to continue or with tool calls.
        opaque: A vendor's signed or encrypted reasoning, as the server gave it, with tool calls.
    """

    role: model.Role.ValueType
    parts: tuple[Part, ...]
    reasoning: str = ""
    opaque: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model, whichever method serves it.

    Attributes:
        messages: The conversation, images as the file's own bytes.
        config: How to decode; ignored where continuations are given.
        continuations: What Likelihood is to score; empty means Generate.
        modality: What Generate is to make.
        stage: Which model is asked: "" is the model under evaluation, another name an
            endpoint given by `--stage NAME=H:P`, and without one the model as well.
        tools: What Generate may call by the contract's own means; a protocol in text has none here.
    """

    messages: tuple[Message, ...]
    config: model.GenerationConfig = field(default_factory=model.GenerationConfig)
    continuations: tuple[str, ...] = ()
    modality: model.Modality.ValueType = model.MODALITY_UNSPECIFIED
    stage: str = ""
    tools: tuple[model.Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer in one turn; exactly one of `response` and `scores` is set.

    Attributes:
        text: The text parts of the output, joined; "" for Likelihood.
        images: The image parts of the output.
        scores: One score per continuation, in order; empty for Generate.
        finish_reason: Why the output ended.
        reasoning: What the model reasoned before the output, as far as the server tells it.
        tool_calls: The tool calls of the output, in order.
        opaque: A vendor's reasoning, to be returned with the calls.
        tokens: Tokens of the output, and how many of them are reasoning.
        shown: Width and height, in pixels, at which the model saw each image of the prompt; empty if unknown.
    """

    text: str = ""
    images: tuple[model.Image, ...] = ()
    scores: tuple[model.ContinuationScore, ...] = ()
    finish_reason: model.FinishReason.ValueType = model.FINISH_REASON_UNSPECIFIED
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    opaque: bytes = field(default=b"", repr=False)
    shown: tuple[tuple[int, int], ...] = ()
    tokens: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scoring of one turn's answer: the fields of lyncean.scorer.v1.ScoreRequest.

    Attributes:
        rule: Name of the rule.
        targets: What is right; any one of these.
        options: The options as the model saw them, in their order.
        params: The rule's parameters, JSON-like.
        labels: What the item can be sliced by. Every value is a string.
        group: Items of one group belong together (one puzzle, one image).
    """

    rule: str
    targets: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    group: str = ""


class _UnaskedError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class NoAnswerError(_UnaskedError):
    """Raised by `Turn.ask` where an earlier answer leaves nothing to ask with.

    The turn, and every later one of the sample, becomes `unparsed` with this reason, for
    example "no_image" where stage 1 of Visual CoT made none.
    """


class BadRowError(_UnaskedError):
    """Raised by `Turn.ask` where the row cannot be asked, for example a corrupt image.

    The item becomes `rejected` with this reason, and the run goes on.
    """


class Calls(Protocol):
    """The calls that one answer takes: a task's own rounds, or those of a model with tools, which the engine plays."""

    @property
    def max_calls(self) -> int:
        """Calls at most."""

    def first(self, call: Call) -> Call:
        """Returns the first request for a task's own one."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Further calls of a turn, each a conversation of its own, as the answers so far have it.

    Attributes:
        follow: Returns the next conversation, or the answer that is judged, from the answers so far. It depends on
            nothing but the row and them, and raises as `Turn.ask` does.
        max_calls: Calls at most; after so many it returns an answer.
    """

    follow: Callable[[Sequence[Answer]], Sequence[Message] | Answer]
    max_calls: int

    def first(self, call: Call) -> Call:
        """Returns the first request: the turn's own."""
        return call


@dataclass(frozen=True, slots=True)
class Lookups:
    """Calls of a tool of the run that a task makes of the model's first answer, and the request that they lead to.

    Attributes:
        tool: The tool's name.
        calls: Returns the arguments of each call, JSON text, from the first answer; none leads to the request at once.
        follow: Returns the second request, a conversation of its own, from the first one, as the model saw it, and the
            results; its answer is judged. It may have continuations.
        facts: Returns the item's facts from the results.
        max_calls: Two.
    """

    tool: str
    calls: Callable[[Answer], Sequence[str]]
    follow: Callable[[Call, Sequence[ToolResult]], Call]
    facts: Callable[[Sequence[ToolResult]], Mapping[str, float]]
    max_calls: int = 2

    def first(self, call: Call) -> Call:
        """Returns the first request: the turn's own."""
        return call


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of a sample: by one call, or by as many as its tools take.

    Attributes:
        ask: Builds the first call from the answers to the earlier turns, in order. Called only when
            the call is really to be made; must depend on nothing but the row and the answers.
        name: Name of the step; "" in a single-turn sample.
        scoring: How the answer is judged; None for a turn that only prepares another.
        may_be_cut: Whether an output that its limit cut inside its reasoning is used by a later turn all the same.
        play: Tools that may be called before the answer, or the task's own rounds; None for one call.
    """

    ask: Callable[[Sequence[Answer]], Call]
    name: str = ""
    scoring: Scoring | None = None
    may_be_cut: bool = False
    play: Calls | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One unit of a benchmark: a key that never changes and its turns, asked in order.

    Each scored turn is one planned item of the accounting.

    Attributes:
        key: `task/id`, plus `#repeat` from the second repeat on (`#1`, `#2`, ...).
        turns: At least one.
    """

    key: str
    turns: tuple[Turn, ...]

    def item_key(self, turn: Turn) -> str:
        """Key of one turn in the run log and in verdicts."""
        return f"{self.key}:{turn.name}" if turn.name else self.key

    def call_key(self, name: str) -> str:
        """Key, in the run log, of a call or a tool's result of a turn with tools, by its name in the sample."""
        return f"{self.key}:{name}"


def single(key: str, ask: Callable[[], Call], scoring: Scoring) -> Sample:
    """Returns a sample of one turn."""
    return Sample(key, (Turn(lambda _: ask(), scoring=scoring),))


@dataclass(frozen=True, slots=True)
class Variant(Generic[SettingsT]):
    """Variant of a task: everything besides the data on which a sample may depend.

    Attributes:
        task: The task's name.
        method: "generate" or "likelihood".
        seed: The run's seed.
        repeat: Which repeat this is, from 0.
        repeats: How many there are in all; a dialogue whose next round needs the repeats of the
            last one asks them all in the sample of repeat 0.
        shuffle_options: Whether options are permuted, anew for each sample and repeat.
        parity: Whether prompts, decoding and rules follow the reference, bugs included.
        settings: The benchmark's settings, an instance of `Benchmark.settings`.
    """

    task: str
    method: str = "generate"
    seed: int = 0
    repeat: int = 0
    repeats: int = 1
    shuffle_options: bool = False
    parity: bool = False
    settings: SettingsT = field(kw_only=True)

    def key(self, identifier: str | int) -> str:
        """Returns the key of the sample made of the row with this identifier.

        A "#" of the identifier's own is written as in a URL: `page#1` is not a repeat of `page`.
        """
        name = str(identifier)
        if "#" in name:
            name = name.replace("%", "%25").replace("#", "%23")
        return f"{self.task}/{name}" + (f"#{self.repeat}" if self.repeat else "")

    def rng(self, identifier: str | int, purpose: str) -> random.Random:
        """Returns a generator that depends on seed, task, row, repeat and purpose alone."""
        content = f"{self.seed}|{self.key(identifier)}|{purpose}"
        return random.Random(hashlib.sha256(content.encode()).digest())


def text_part(text: str) -> Part:
    """Returns a text part."""
    return Part(text)


def image_part(data: bytes) -> Part:
    """Returns an image part of an encoded file's bytes, its media type read off the bytes."""
    return Part(image=Image(data, media_type(data)))


def audio_part(data: bytes, span: model.TimeSpan | None = None) -> Part:
    """Returns an audio part of an encoded file's bytes, its media type read off the bytes."""
    return Part(clip=Clip(data, model.Audio(media_type=clip_type("audio", data), span=span)))


def video_part(data: bytes, span: model.TimeSpan | None = None, sampling: model.FrameSampling | None = None) -> Part:
    """Returns a video part of an encoded file's bytes, its media type read off the bytes."""
    about = model.Video(media_type=clip_type("video", data), span=span, sampling=sampling)
    return Part(clip=Clip(data, about))


def media_of(messages: Iterable[Message]) -> Iterator[Image | Clip]:
    """Yields the images and clips of messages, those of tool results included, in their order."""
    for message in messages:
        for part in message.parts:
            for shown in part.tool_result.content if part.tool_result else (part,):
                if medium := shown.clip or shown.image:
                    yield medium


def system(text: str) -> Message:
    """Returns a system message."""
    return Message(model.ROLE_SYSTEM, (text_part(text),))


def user(*parts: Part) -> Message:
    """Returns a user message."""
    return Message(model.ROLE_USER, parts)


def assistant(text: str) -> Message:
    """Returns a message of the model's."""
    return Message(model.ROLE_ASSISTANT, (text_part(text),))


def metric(
    name: str,
    kind: str,
    *,
    where: Mapping[str, Sequence[str]] | None = None,
    by: Sequence[Sequence[str]] = (),
    params: Mapping[str, object] | None = None,
) -> scorer.MetricSpec:
    """Returns a metric's specification; see lyncean.scorer.v1.MetricSpec."""
    spec = scorer.MetricSpec(name=name, metric=kind)
    for label, values in (where or {}).items():
        spec.where[label].values.extend(values)
    for labels in by:
        spec.by.add(labels=labels)
    if params:
        json_format.ParseDict(dict(params), spec.params)
    return spec
