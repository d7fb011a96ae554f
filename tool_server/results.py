"""Outputs of tools as responses, within the bounds of the contract."""

from __future__ import annotations

import math
from dataclasses import replace

from lyncean.rpc.errors import InternalFailure
from lyncean.tool.v1 import tool_pb2 as pb
from lyncean.vocabulary.tool_results import MAX_FACTS, MAX_IMAGES, MAX_PARTS, MAX_TEXT
from tool_server.types import Output


def checked_output(output: Output, name: str) -> Output:
    """Returns an output within the contract; characters that UTF-8 cannot encode become question marks.

    Raises:
        InternalFailure: The output breaks the contract; names the tool.
    """
    if not isinstance(output, Output):
        raise _bad(name, f"returned {type(output).__name__}, not an Output")
    if others := [piece for piece in output.content if not isinstance(piece, (str, bytes))]:
        raise _bad(name, f"returned {type(others[0]).__name__} as content, which is text or the bytes of an image")
    content = tuple(piece.encode(errors="replace") if isinstance(piece, str) else piece for piece in output.content)
    kinds = [isinstance(piece, str) for piece in output.content]
    texts = sum(len(data) for data, text in zip(content, kinds, strict=True) if text)
    images = sum(map(len, content)) - texts
    for unit, count, most in (
        ("parts", len(output.content), MAX_PARTS),
        ("bytes of text", texts, MAX_TEXT),
        ("bytes of images", images, MAX_IMAGES),
        ("facts", len(output.facts), MAX_FACTS),
    ):
        if count > most:
            raise _bad(name, f"returned {count:,} {unit}, the limit is {most:,}")
    if not output.content or b"" in output.content:
        raise _bad(name, "returned nothing, or an empty image")
    if not all(math.isfinite(value) for value in output.facts.values()):
        raise _bad(name, "returned a fact that is not finite")
    return replace(
        output,
        content=tuple(data.decode() if text else data for data, text in zip(content, kinds, strict=True)),
    )


def response(output: Output, revision: str, replayed: int) -> pb.CallToolResponse:
    """Returns the response that carries an output.

    Args:
        output: An output of `checked_output`.
        revision: The server's revision.
        replayed: Earlier calls that were made again.
    """
    message = pb.CallToolResponse(is_error=output.is_error, facts=output.facts, revision=revision, replayed=replayed)
    for piece in output.content:
        if isinstance(piece, str):
            message.content.add(text=piece)
        else:
            message.content.add().image.data = piece
    return message


def _bad(name: str, problem: str) -> InternalFailure:
    return InternalFailure("bad_output", f"the tool {name} {problem}")
