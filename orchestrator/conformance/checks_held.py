"""Files by their hash: held as they were sent, missed by name, never taken for another."""

from __future__ import annotations

import hashlib
import secrets

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.rpc.errors import NOT_HELD
from orchestrator.conformance.check import Broken, applies, check, wants
from orchestrator.conformance.checks_images import picture, plain
from orchestrator.conformance.checks_media import tone
from orchestrator.conformance.server import (
    Request,
    Server,
    in_batch,
    refusal,
    response_of,
    same_score,
    text_of,
    together,
)
from orchestrator.engine.wire import Response

_QUESTION = "What is this? A. red B. blue C. green D. black E. white F. low G. high H. none"
_TRIES = 3
"""Number of times that a file may be missing right after it was sent: other clients' files may displace it."""


@check
async def files_are_taken_by_their_hash(server: Server) -> str:
    """Two files one after the other with their bytes, then each by its hash alone."""
    files = _files(server)
    applies(server.info.max_held_bytes >= sum(map(len, files)), f"{server.info.max_held_bytes} bytes are held: too few")
    telling = False
    for request in server.each_method(_QUESTION, ["red", "blue"]):
        plain = [response_of(await server.ending(_with(request, file, hashed=False)), "a file") for file in files]
        without = response_of(await server.ending(request), "no file")
        telling |= bool(_differ(server, plain[0], without) and _differ(server, plain[0], plain[1]))
        for file in files:
            response_of(await server.ending(_with(request, file)), "a file with its hash")
        for index, file in enumerate(files):
            again = await _by_hash(server, request, file)
            if why := _differ(server, again, plain[index]):
                raise Broken(f"file {index} by its hash is not what its bytes are: {why}")
    applies(telling, "neither tokens nor answer depend on the file: nothing can be seen")
    return f"{server.info.max_held_bytes:,} bytes are held"


@check
async def missing_files_are_named(server: Server) -> None:
    """A file that is held beside one that was never sent."""
    held, unknown = _files(server)[0], _fresh(server)
    for request in server.each_method(_QUESTION, ["red", "blue"]):
        missing = {hashlib.sha256(unknown).hexdigest()}
        both = _with(request, unknown, data=False)
        if server.claims("MULTI_IMAGE"):
            both = _with(both, held, data=False)
        for _ in range(_TRIES):
            await server.send(_with(request, held))
            error = refusal(await server.ending(both), "a file that was never sent", grpc.StatusCode.NOT_FOUND)
            named = set(error.metadata.get("sha256", "").split(","))
            if named == missing:
                break
        wants(error.reason == NOT_HELD, f"the reason is {error.reason!r}: it is {NOT_HELD!r}")
        wants(named == missing, f"one file is missing, and sha256 in the metadata names {', '.join(sorted(named))}")


@check
async def hashes_are_checked(server: Server) -> None:
    """Bytes under another hash, which then stands for nothing; a hash that is too short."""
    file, other = _files(server)[0], _fresh(server)
    for request in server.each_method(_QUESTION, ["red", "blue"]):
        wrong, short = _with(request, file), _with(request, file)
        for medium, digest in ((_last(wrong), hashlib.sha256(other).digest()), (_last(short), b"\x01" * 31)):
            medium.sha256 = digest
        await server.refused(wrong, what="bytes under the hash of another file")
        await server.refused(short, what="a hash of 31 bytes")
        await server.refused(
            _with(request, other, data=False), grpc.StatusCode.NOT_FOUND, what="a hash under which other bytes came"
        )


@check
async def batch_calls_share_their_files(server: Server) -> None:
    """A file's hash in one call of a Batch, its bytes in the next."""
    together(server)
    for request in server.each_method(_QUESTION, ["red", "blue"]):
        file = _fresh(server)
        calls = [_with(request, file, data=False), _with(request, file)]
        endings = await server.settled(in_batch, calls)
        first, second = (response_of(ending, "a call of a Batch that brings its file") for ending in endings)
        plain = response_of(await server.ending(_with(request, file, hashed=False)), "the file by itself")
        for response in (first, second):
            if why := _differ(server, response, plain):
                raise Broken(f"a file of the Batch is not what its bytes are: {why}")


async def _by_hash(server: Server, request: Request, file: bytes) -> Response:
    """Returns the response to a request with a file's hash, its bytes sent before once more where it is missing."""
    for _ in range(_TRIES):
        ending = await server.ending(_with(request, file, data=False))
        if not isinstance(ending, CallError) or ending.reason != NOT_HELD:
            return response_of(ending, "a file by its hash")
        await server.send(_with(request, file))
    raise Broken(f"a file is missing right after its bytes were sent, {_TRIES} times")


def _differ(server: Server, one: Response, other: Response) -> str:
    """Returns how two responses differ that are to be the same, "" if they do not."""
    counts = one.usage.input_tokens, other.usage.input_tokens
    if counts[0] != counts[1]:
        return f"{counts[0]} and {counts[1]} input_tokens"
    if isinstance(one, model.GenerateResponse) and isinstance(other, model.GenerateResponse):
        texts = text_of(one), text_of(other)
        return f"{texts[0]!r} and {texts[1]!r}" if server.exact and texts[0] != texts[1] else ""
    assert isinstance(one, model.LikelihoodResponse)
    assert isinstance(other, model.LikelihoodResponse)
    if len(one.scores) != len(other.scores):
        return f"{len(one.scores)} and {len(other.scores)} scores"
    try:
        for score, again in zip(one.scores, other.scores, strict=True):
            same_score(server, "a score", score, again)
    except Broken as error:
        return str(error)
    return ""


def _with(request: Request, file: bytes, *, data: bool = True, hashed: bool = True) -> Request:
    """Returns a request with one more file before its last part: its bytes, its hash, or both."""
    copy = type(request).FromString(request.SerializeToString())
    *before, question = copy.messages[0].parts
    del copy.messages[0].parts[:]
    copy.messages[0].parts.extend(before)
    medium = _medium(copy.messages[0].parts.add(), file)
    medium.data = file if data else b""
    medium.sha256 = hashlib.sha256(file).digest() if hashed else b""
    copy.messages[0].parts.append(question)
    return copy


def _medium(part: model.Part, file: bytes) -> model.Image | model.Audio:
    kind = part.audio if file.startswith(b"RIFF") else part.image
    kind.SetInParent()
    return kind


def _last(request: Request) -> model.Image | model.Audio:
    """Returns the file before the question."""
    part = request.messages[0].parts[-2]
    return part.audio if part.HasField("audio") else part.image


def _files(server: Server) -> tuple[bytes, bytes]:
    """Returns two files between which many models see a difference in the tokens, all others in what they show."""
    if server.claims("IMAGE_INPUT"):
        return picture("red"), plain("blue", 192, 128)
    applies(server.claims("AUDIO_INPUT"), "it takes neither images nor audio")
    return tone(220), tone(1760)


def _fresh(server: Server) -> bytes:
    """Returns a file that the server was never sent."""
    if server.claims("IMAGE_INPUT"):
        return plain(f"#{secrets.token_hex(3)}", 64, 48)
    return tone(200 + secrets.randbelow(3000))
