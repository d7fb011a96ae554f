"""The parts of messages and outputs in the lines of the run folder: to JSON and back (docs/run-folder.md)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message as AnyMessage

from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import Clip, Image, Part, ToolCall, ToolResult

Json = dict[str, Any]
Medium = Image | Clip | model.Image
StoreMedium = Callable[[Medium], str]
"""Takes the bytes of an image or clip and returns their sha256 in hex."""
LoadImage = Callable[[str], bytes]

_CLIPS = {"audio": model.Audio, "video": model.Video}


def proto_json(message: AnyMessage) -> Json:
    """Returns a message as proto3 JSON with the proto's field names."""
    line: Json = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return line


def base64_of(data: bytes) -> str:
    """Returns bytes in proto3 JSON's encoding."""
    return b64encode(data).decode()


def part_json(part: Part, store: StoreMedium) -> Json:
    """Returns a part of a request, an image or clip replaced by a reference into the store."""
    if part.clip:
        line = proto_json(part.clip.about)
        return {part.clip.kind: {**line, "sha256": store(part.clip), "bytes_length": len(part.clip.data)}}
    if part.image:
        return _image_json(part.image, store)
    if part.tool_call:
        return tool_call_json(part.tool_call)
    if part.tool_result:
        result = part.tool_result
        content = [part_json(piece, store) for piece in result.content]
        flag = {"is_error": True} if result.is_error else {}
        return {"tool_result": {"tool_call_id": result.tool_call_id, "content": content, **flag}}
    return {"text": part.text}


def output_json(part: model.Part, store: StoreMedium) -> Json:
    """Returns a part of an output, an image replaced by a reference."""
    if part.HasField("image"):
        return _image_json(part.image, store)
    return tool_call_json(part.tool_call) if part.HasField("tool_call") else {"text": part.text}


def _image_json(image: Image | model.Image, store: StoreMedium) -> Json:
    return {"image": {"media_type": image.media_type, "sha256": store(image), "bytes_length": len(image.data)}}


def tool_call_json(call: ToolCall | model.ToolCall) -> Json:
    """Returns a part that is a tool call."""
    fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return {"tool_call": {name: value for name, value in fields.items() if value}}


def tool_call_of(line: Mapping[str, str]) -> ToolCall:
    """Returns the tool call of a line."""
    return ToolCall(line["id"], line.get("name", ""), line.get("arguments", ""))


def part_of(line: Mapping[str, Any], load: LoadImage) -> Part:
    """Returns the part of a request that a line holds."""
    if "text" in line:
        return Part(line["text"])
    ((kind, reference),) = line.items()
    if kind == "image":
        return Part(image=Image(load(reference["sha256"]), reference["media_type"]))
    if kind == "tool_call":
        return Part(tool_call=tool_call_of(reference))
    if kind == "tool_result":
        content = tuple(part_of(part, load) for part in reference["content"])
        return Part(tool_result=ToolResult(reference["tool_call_id"], content, reference.get("is_error", False)))
    about = {name: value for name, value in reference.items() if name not in ("sha256", "bytes_length")}
    return Part(clip=Clip(load(reference["sha256"]), json_format.ParseDict(about, _CLIPS[kind]())))
