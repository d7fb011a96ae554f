"""The base class of a model served by the kit: subclass `Model`, implement `generate`, call `main`.

The kit provides the rest: the gRPC service with its limits, status codes, health, reflection,
TLS, token, drain and metrics; safe image decoding; stop strings and the output limit;
concurrency in threads, or batches where `generate_batch` is implemented.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from model_server import images
from model_server.backend import Call
from model_server.clips import Frames, Sound
from model_server.parts import content

_WORD = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True)
class Request:
    """One conversation, in the form that a model's author uses.

    Attributes:
        messages: The conversation, as received.
        config: How to decode; `max_output_tokens` and `temperature` are always set, and so is
            `seed` where temperature is not 0.
        modality: What to produce.
        call: The request's life; long loops check `call.over`, which says whether the caller still waits.
        audio: What is heard of all audio parts, in order, at `Model.sample_rate`.
        videos: What is seen of all video parts, in order.
        prompt: A request of the same messages whose images this one copies; None decodes them.
        tools: Tools that the model may call; `messages` hold earlier calls and their results.
        tool_choice: Whether it calls them; needs `Model.tool_choices`, else it is for the model to decide.
    """

    messages: Sequence[model.Message]
    config: model.GenerationConfig
    modality: model.Modality.ValueType
    call: Call
    audio: list[Sound] = field(default_factory=list)
    videos: list[Frames] = field(default_factory=list)
    prompt: Request | None = field(default=None, repr=False)
    tools: Sequence[model.Tool] = ()
    tool_choice: model.ToolChoice = field(default_factory=model.ToolChoice)

    @cached_property
    def text(self) -> str:
        """All text parts of all messages and tool results, joined by line ends."""
        return "\n".join(part.text for part in content(self.messages) if part.WhichOneof("kind") == "text")

    @property
    def continues(self) -> bool:
        """True if the last message is the beginning of the answer, to be continued and not repeated."""
        return self.messages[-1].role == model.ROLE_ASSISTANT

    @property
    def answer_prefix(self) -> str:
        """The text of that beginning; "" without one. Its message may have `reasoning` before it."""
        return "".join(part.text for part in self.messages[-1].parts) if self.continues else ""

    @cached_property
    def images(self) -> list[Image.Image]:
        """All images, in order, as 8-bit RGB."""
        if self.prompt:  # copies: an author's code may change its own in place
            return [image.copy() for image in self.prompt.images]
        return [images.decode(data) for data in self.image_bytes]

    @cached_property
    def image_bytes(self) -> list[bytes]:
        """All images, those of tool results included, in order, as the files' own bytes."""
        return [part.image.data for part in content(self.messages) if part.HasField("image")]


@dataclass(frozen=True)
class Output:
    """A model's output.

    Attributes:
        text: The text.
        finish_reason: The reason why it ended; the kit overrules it if it cuts the text.
        image_files: Encoded images, for MODALITY_IMAGE.
        reasoning: The model's reasoning before the text; needs `Model.reasoning`.
        tool_calls: Name and arguments of each tool that the model calls after the text: a mapping, or JSON as the
            model wrote it, valid or not. Needs `Model.tools`.
        opaque: Reasoning for the model alone, which the next request has in `Message.opaque`; beside calls only.
    """

    text: str = ""
    finish_reason: model.FinishReason.ValueType = model.FINISH_REASON_END_OF_SEQUENCE
    image_files: Sequence[bytes] = ()
    reasoning: str = ""
    tool_calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    opaque: bytes = b""


@dataclass(frozen=True)
class Score:
    """A continuation's likelihood.

    Attributes:
        logprob: Sum over its tokens, natural logarithm.
        tokens: Each token's text and log-probability, in order; at least one.
        is_greedy: Whether greedy decoding would have produced exactly this.
        token_ids: The tokens' numbers in the vocabulary; empty if it has none.
    """

    logprob: float
    tokens: Sequence[tuple[str, float]]
    is_greedy: bool = False
    token_ids: Sequence[int] = ()


class Model:
    """Base class of a model. `name` and one of the `generate` methods are required.

    Attributes:
        name: The model's name in results.
        revision: Identity of the weights; "" where it is not known.
        image_input: Whether images are understood.
        multi_image: Whether several images are.
        image_output: Whether images can be made.
        audio_input: Whether audio is understood.
        video_input: Whether videos are.
        sample_rate: Samples per second of `Request.audio`; 0 is that of each file.
        frames: Frames that are seen of a video where the request does not say.
        max_frames: Most frames of a video; 0 means unlimited.
        max_images: Most images of a request.
        max_image_pixels: Most pixels of an image.
        system_messages: Whether the model is shown the words of system messages; None where that is not known.
        reasoning: Whether the model reasons before it answers; `generate` then returns the two apart, in an `Output`.
        thinking: Whether `generate` obeys `config.thinking`, which turns the reasoning on and off.
        thinking_budget: Whether it obeys `config.thinking_budget`, the bound on the tokens of reasoning.
        answer_prefix: Whether an answer that `Request.answer_prefix` begins is continued.
        answer_choices: Whether it keeps an answer to `config.response_format.choices`; the kit checks each answer.
        answer_regex: Whether it does to a regular expression.
        answer_json_schema: Whether it does to a JSON schema.
        tools: Whether tools are understood, and all that `messages` hold of calls and results is shown to the model:
            images of results if `image_input`, reasoning beside calls if `reasoning`.
        tool_choices: Whether `generate` obeys `Request.tool_choice`; the kit checks each answer.
        max_samples: Most outputs of one request.
        max_held_bytes: Bytes of images and clips that the kit holds for requests which send their hashes alone; 0
            holds none, None is 256 MiB, less where memory is small.
        max_concurrency: Calls of `generate` at a time, each in a thread.
        max_batch: Most requests of one call of `generate_batch`.
        batch_wait: Longest wait of a request for others to share its batch, in seconds.
        max_queue: Requests waiting; one more is refused.
        max_context_tokens: Tokens of prompt and output together; 0 means unlimited.
        default_max_tokens: The value of an unset `max_output_tokens`.
        image_tokens: Tokens that an image, or a frame of a video, counts for.
        audio_tokens: Tokens that a second of audio counts for.
    """

    name = ""
    revision = ""
    image_input = True
    multi_image = True
    image_output = False
    audio_input = False
    video_input = False
    sample_rate = 0
    frames = 32
    max_frames = 0
    max_images = 256
    max_image_pixels = images.MAX_PIXELS
    system_messages: bool | None = None
    reasoning = False
    thinking = False
    thinking_budget = False
    answer_prefix = False
    answer_choices = False
    answer_regex = False
    answer_json_schema = False
    tools = False
    tool_choices = False
    max_samples = 16
    max_held_bytes: int | None = None
    max_concurrency = 8
    max_batch = 8
    batch_wait = 0.005
    max_queue = 256
    max_context_tokens = 0
    default_max_tokens = 1024
    image_tokens = 0
    audio_tokens = 0

    def load(self) -> None:
        """Loads the weights; may take minutes, and may raise `model_server.backend.LoadError`."""

    def generate(self, request: Request) -> str | Output:
        """Answers one request. Runs in a thread; up to `max_concurrency` run at a time."""
        raise NotImplementedError

    def generate_batch(self, requests: Sequence[Request]) -> Sequence[str | Output]:
        """Answers requests that arrived together, in their order; implement it instead of `generate`."""
        raise NotImplementedError

    def generate_samples(self, requests: Sequence[Request]) -> Sequence[str | Output]:
        """Answers requests of one prompt that differ in `config.seed` alone, in their order.

        Implement it beside `generate` or `generate_batch` where the prompt can be read once for all of them; else each
        is answered by itself.
        """
        raise NotImplementedError

    def likelihood(self, request: Request, continuations: Sequence[str]) -> Sequence[Score]:
        """Scores continuations, in their order; implementing it claims CAPABILITY_LIKELIHOOD."""
        raise NotImplementedError

    def render(self, request: Request) -> tuple[str, Sequence[int]]:
        """Returns the prompt as the model is given it; implementing it claims CAPABILITY_RENDERED_PROMPT.

        Returns:
            The text that the tokenizer reads, and the tokens' numbers, media included; one of them may be empty.
        """
        raise NotImplementedError

    def tokenize(self, text: str) -> list[str]:
        """Splits text into tokens that join to it again; words, unless the author knows better."""
        return _WORD.findall(text)

    def properties(self) -> dict[str, str]:
        """Further facts for GetModelInfo; keys in lower snake case."""
        return {}
