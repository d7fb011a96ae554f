"""Results of MCP tools as outputs."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from lyncean.media import UNKNOWN, media_type
from lyncean.rpc import InternalFailure
from lyncean.vocabulary import MAX_IMAGES
from tool_server import Output


def output_of(result: Any) -> Output:
    """Returns a result as an output: texts and images; a line of text names other kinds of content.

    Args:
        result: A `CallToolResult` of the package `mcp`.

    Raises:
        InternalFailure: It has more bytes of images than the contract allows, or invalid base64.
    """
    left = MAX_IMAGES
    content: list[str | bytes] = []
    for block in result.content:
        piece = _piece(block, left)
        left -= len(piece) if isinstance(piece, bytes) else 0
        content.append(piece)
    if not content:
        structured = result.structured_content
        content.append("" if structured is None else json.dumps(structured, ensure_ascii=False))
    return Output(tuple(content), bool(result.is_error))


def _piece(block: Any, left: int) -> str | bytes:
    if block.type == "text":
        return str(block.text)
    if block.type == "image":
        return _image(block.data, left) or "[an image in a format that is not read]"
    if block.type == "resource_link":
        return str(block.uri)
    if block.type == "resource":
        resource = block.resource
        if (text := getattr(resource, "text", None)) is not None:
            return str(text)
        return _image(resource.blob, left) or f"[a file of type {resource.mime_type or UNKNOWN}]"
    return f"[content of type {block.type}]"


def _image(data: str, left: int) -> bytes:
    """Returns an image, b"" for other content."""
    if len(data) // 4 * 3 > left:
        raise InternalFailure("bad_output", f"the MCP server returned more than {MAX_IMAGES:,} bytes of images")
    try:
        image = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InternalFailure("bad_output", f"the MCP server returned an image that is not base64: {error}") from error
    return b"" if media_type(image) == UNKNOWN else image
