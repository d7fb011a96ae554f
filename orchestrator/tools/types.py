"""Interfaces between the engine, which asks a model and keeps the log, and the tools that the model calls.

Nothing here keeps state: a tool is a function of its arguments and the pictures so far, a protocol a function of the
model's answers. A resumed run gets the same messages from the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface

from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import Answer, Call, Image, Message, Part, ToolCall, ToolResult, media_of

MADE = -1
"""Source of an image that a tool made, and not of one image of the conversation."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a tool may refer to: the sample's own images first, then those of tool results, in order.

    Attributes:
        data: The encoded file.
        shown: Width and height, in pixels, at which the model saw it; None if the server does not say.
        source: For an image that a tool made: index of the picture that it was made of, or `MADE`.
        box: For a crop: left, top, right and bottom in the source's pixels. It may reach beyond the source.
        source_size: Width and height of the source in these pixels.
    """

    data: bytes = field(repr=False)
    shown: tuple[int, int] | None = None
    source: int | None = None
    box: tuple[float, float, float, float] | None = None
    source_size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A call that a server of tools is to make.

    Attributes:
        server: The server's index in `--tools`.
        name: The tool's name there.
        arguments: JSON text.
    """

    server: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Output of a tool.

    Attributes:
        content: Texts and pictures, in the order in which the model is to see them.
        is_error: Whether the content is an error message.
        facts: Numbers known of the call.
        remote: The call that a server of tools made for it.
    """

    content: tuple[Part | Picture, ...]
    is_error: bool = False
    facts: Mapping[str, float] = field(default_factory=dict)
    remote: RemoteCall | None = None


def stored_pictures(call: Call) -> list[Picture]:
    """Returns the images of a request as they are stored."""
    return [Picture(medium.data) for medium in media_of(call.messages) if isinstance(medium, Image)]


class Tool(Interface):
    """A function that a model may call."""

    def describe(self) -> model.Tool:
        """Returns name, description and schema as the model sees them."""

    def call(self, arguments: str, pictures: Sequence[Picture]) -> ToolOutput | RemoteCall:
        """Runs the tool on the arguments as the model wrote them; a mistake of the model's is an error output.

        Pure: the same arguments and pictures give the same output. It may decode images and take long. A tool of a
        server returns the call that is to be made there.
        """


class Protocol(Interface):
    """The form in which a model calls tools and reads their results."""

    @property
    def name(self) -> str:
        """Name of the protocol: "native", or that of a text protocol."""

    @property
    def max_calls(self) -> int:
        """Requests to the model that a trajectory may have, unless the run says otherwise."""

    @property
    def judged_at_limit(self) -> bool:
        """True if the last answer of a trajectory that met its limit is judged, as `final` reads it."""

    def first(self, call: Call, tools: Sequence[Tool]) -> Call:
        """Returns the first request: the task's own, with the description of the tools."""

    def pictures(self, call: Call) -> list[Picture]:
        """Returns the images of a task's own request as tools get them."""

    def read(self, answer: Answer) -> tuple[ToolCall, ...]:
        """Returns the calls of an answer, malformed ones included; none if it calls no tool."""

    def again(self, answer: Answer) -> bool:
        """Returns true if an answer without a call is ignored, and its request is sent once more, unchanged."""

    def call(self, call: ToolCall, tools: Sequence[Tool], pictures: Sequence[Picture]) -> ToolOutput | RemoteCall:
        """Runs one call: the tool it names, or the protocol's answer to a call that is malformed or names none."""

    def next(self, answer: Answer, results: Sequence[ToolResult], turn: int) -> tuple[Message, ...] | None:
        """Returns the messages that the next request adds, the model's own first.

        Args:
            answer: An answer with calls.
            results: A result for each of them, in their order.
            turn: Number of the answer in its trajectory, from 0.

        Returns:
            () where the protocol ends a trajectory at such results; the answer is then judged, as `final` reads it.
            None where it ignores the answer and sends the same request once more, unchanged.
        """

    def final(self, answer: Answer) -> Answer:
        """Returns the answer with the text that the rule judges."""
