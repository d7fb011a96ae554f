"""Wire format of a call, assembled by hand: a file's bytes are copied once, on sending.

The result equals protobuf's own serialization byte for byte; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Literal

from google.protobuf.descriptor import Descriptor

from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import Call, Message, Part, ToolResult, media_of

Response = model.GenerateResponse | model.LikelihoodResponse

_LENGTH_DELIMITED = 2


@dataclass(slots=True, eq=False)
class Request:
    """A serialized GenerateRequest or LikelihoodRequest in pieces, and the method that takes it; never changed.

    Attributes:
        continuations: Number of scores expected; 0 for Generate.
        modality: Modality that Generate is to produce.
        max_output_tokens: Its bound, 0 without one.
        choices: Texts that the answer may be; empty if it is free.
        sampled: Whether its answer is drawn: its last piece then differs from that of a repeat by the seed alone.
        messages: The conversation, which all pieces but the last are.
        digests: SHA-256 of each of its images and clips, in their order; b"" for one that is always sent.
        tools: Whether tools are offered, so that the answer may call them.
        size: Bytes of the pieces together.
    """

    method: Literal["Generate", "Likelihood"]
    chunks: Sequence[bytes] = field(repr=False)
    continuations: int = 0
    modality: model.Modality.ValueType = model.MODALITY_UNSPECIFIED
    max_output_tokens: int = 0
    choices: Sequence[str] = ()
    sampled: bool = False
    messages: Sequence[Message] = field(default=(), repr=False)
    digests: Sequence[bytes] = field(default=(), repr=False)
    tools: bool = False
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Adds up the pieces once: the size is needed several times."""
        self.size = sum(map(len, self.chunks))

    @property
    def data(self) -> bytes:
        """The pieces in one."""
        return b"".join(self.chunks)

    @property
    def files(self) -> list[tuple[bytes, int]]:
        """The SHA-256 and size of each image and clip that may be sent by its hash."""
        if not any(self.digests):
            return []
        media = zip(self.digests, media_of(self.messages), strict=True)
        return [(digest, len(medium.data)) for digest, medium in media if digest]

    def by_hash(self, held: set[bytes]) -> Sequence[bytes]:
        """Returns the pieces with the hashes of files in them, which stand alone for those that are held.

        Args:
            held: SHA-256 of files whose bytes are left out. Those that are sent are added: they are sent once.
        """
        digests = iter(self.digests)
        chunks = (_field(_MESSAGES, _message(message, digests, held)) for message in self.messages)
        return [*chain.from_iterable(chunks), self.chunks[-1]]


def request_of(call: Call, digests: Sequence[bytes] = ()) -> Request:
    """Returns the request of a call.

    Args:
        call: The call.
        digests: As in Request.
    """
    chunks: list[bytes] = []
    for message in call.messages:
        chunks += _field(_MESSAGES, _message(message, iter(()), set()))
    messages = call.messages
    if call.continuations:
        chunks.append(model.LikelihoodRequest(continuations=call.continuations).SerializeToString())
        return Request("Likelihood", chunks, len(call.continuations), messages=messages, digests=digests)
    config = call.config
    rest = model.GenerateRequest(config=config, modality=call.modality, tools=call.tools)
    chunks.append(rest.SerializeToString())
    choices = tuple(config.response_format.choices.texts) if config.HasField("response_format") else ()
    sampled = config.temperature > 0 and call.modality != model.MODALITY_IMAGE
    tokens = config.max_output_tokens
    return Request("Generate", chunks, 0, call.modality, tokens, choices, sampled, messages, digests, bool(call.tools))


def is_repeat(request: Request, first: Request, number: int) -> bool:
    """Returns whether a request equals output `number`, from 0, of a first request made for several samples."""
    if not (request.sampled and first.sampled) or request.chunks[:-1] != first.chunks[:-1]:
        return False
    one, other = (model.GenerateRequest.FromString(call.chunks[-1]) for call in (first, request))
    if one.config.HasField("seed"):
        one.config.seed = (one.config.seed + number) % 2**64
    return one == other


def samples_of(requests: Sequence[Request]) -> Request:
    """Returns the request for the outputs of several, which are repeats of the first in their order."""
    *chunks, last = requests[0].chunks
    return replace(
        requests[0], chunks=[*chunks, last + model.GenerateRequest(samples=len(requests)).SerializeToString()]
    )


def batch_of(requests: Iterable[tuple[Request, Sequence[bytes]]]) -> bytes:
    """Returns the BatchRequest that holds these requests, each with its pieces as they are sent, in this order."""
    chunks: list[bytes] = []
    for request, pieces in requests:
        chunks += _field(_CALLS, _field(_KINDS[request.method], pieces))
    return b"".join(chunks)


def _message(message: Message, digests: Iterator[bytes], held: set[bytes]) -> list[bytes]:
    chunks = [_role(message.role)]
    for part in message.parts:
        chunks += _field(_PARTS, _part(part, digests, held))
    if message.reasoning:
        chunks.append(model.Message(reasoning=message.reasoning).SerializeToString())
    if message.opaque:
        chunks.append(model.Message(opaque=message.opaque).SerializeToString())
    return chunks


def _part(part: Part, digests: Iterator[bytes], held: set[bytes]) -> list[bytes]:
    if part.clip:
        tag, medium, about = _CLIPS[part.clip.kind], part.clip.data, part.clip.about.SerializeToString()
    elif part.image:
        tag, medium, about = _IMAGE, part.image.data, _media_type(part.image.media_type)
    elif part.tool_call:
        call = part.tool_call
        message = model.ToolCall(id=call.id, name=call.name, arguments=call.arguments)
        return [model.Part(tool_call=message).SerializeToString()]
    elif part.tool_result:
        return _field(_TOOL_RESULT, _tool_result(part.tool_result, digests, held))
    else:
        text = part.text.encode()
        return [_TEXT + _varint(len(text)), text]
    digest = next(digests, b"")
    sent = medium and digest not in held
    if digest:
        held.add(digest)
    hash_ = _field(_SHA256, [digest]) if digest else []
    return _field(tag, [*(_field(_DATA, [medium]) if sent else []), about, *hash_])


@lru_cache
def _role(role: model.Role.ValueType) -> bytes:
    return model.Message(role=role).SerializeToString()


@lru_cache(maxsize=64)
def _media_type(media_type: str) -> bytes:
    return model.Image(media_type=media_type).SerializeToString()


def _tool_result(result: ToolResult, digests: Iterator[bytes], held: set[bytes]) -> list[bytes]:
    chunks = [model.ToolResult(tool_call_id=result.tool_call_id).SerializeToString()]
    for part in result.content:
        chunks += _field(_CONTENT, _part(part, digests, held))
    return [*chunks, model.ToolResult(is_error=result.is_error).SerializeToString()]


def _field(tag: bytes, chunks: Sequence[bytes]) -> list[bytes]:
    """Returns a field whose content is the chunks."""
    return [tag + _varint(sum(map(len, chunks))), *chunks]


def _varint(value: int) -> bytes:
    if value <= 0x7F:
        return _SHORT[value]
    if value <= 0x3FFF:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT = [bytes([value]) for value in range(0x80)]


def _tag(descriptor: Descriptor, name: str) -> bytes:
    return _varint(descriptor.fields_by_name[name].number << 3 | _LENGTH_DELIMITED)


_MESSAGES = _tag(model.GenerateRequest.DESCRIPTOR, "messages")
"""Of LikelihoodRequest as well: the two begin alike."""
_PARTS = _tag(model.Message.DESCRIPTOR, "parts")
_TEXT = _tag(model.Part.DESCRIPTOR, "text")
_IMAGE = _tag(model.Part.DESCRIPTOR, "image")
_CLIPS = {name: _tag(model.Part.DESCRIPTOR, name) for name in ("audio", "video")}
_TOOL_RESULT = _tag(model.Part.DESCRIPTOR, "tool_result")
_CONTENT = _tag(model.ToolResult.DESCRIPTOR, "content")
_DATA = _tag(model.Image.DESCRIPTOR, "data")
"""Of Audio and Video as well."""
_SHA256 = _tag(model.Image.DESCRIPTOR, "sha256")
"""Of Audio and Video as well; the last field of each."""
_CALLS = _tag(model.BatchRequest.DESCRIPTOR, "calls")
_KINDS = {name: _tag(model.BatchCall.DESCRIPTOR, name.lower()) for name in ("Generate", "Likelihood")}
