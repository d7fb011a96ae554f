"""Tools: what the model is shown of them, where images of results stand, and what its calls look like."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.conformance.check import Broken, applies, check, wants
from orchestrator.conformance.checks_images import picture
from orchestrator.conformance.server import Server, enum_name, user

_QUESTION = "What stands in the upper left corner of the picture? Call the tool look to see it."
_SCHEMA = '{"type": "object", "properties": {"corner": {"type": "string"}}, "required": ["corner"]}'
_LONG = " ".join(["a tree and a house"] * 12)
_LEAST = 12
"""Tokens by which a prompt grows at least where such words are added to it."""
_LATER = b"\xfa\x3e\x05later"  # field 1007, length-delimited


def told(
    content: Sequence[str | bytes], *, count: int = 1, arguments: str = "", error: bool = False
) -> list[model.Message]:
    """Returns a conversation in which the model has called a tool, and what it gave back."""
    assistant, tools = model.Message(role=model.ROLE_ASSISTANT), model.Message(role=model.ROLE_TOOL)
    for index in range(count):
        call = model.ToolCall(id=f"call_{index}", name="look", arguments=arguments or '{"corner": "left"}')
        assistant.parts.add(tool_call=call)
        result = model.ToolResult(tool_call_id=call.id, content=user(*content).parts, is_error=error)
        tools.parts.add(tool_result=result)
    return [user(_QUESTION), assistant, tools]


def _request(messages: Sequence[model.Message], *, description: str = "Looks at a corner.") -> model.GenerateRequest:
    config = model.GenerationConfig(max_output_tokens=4, temperature=0.0)
    tool = model.Tool(name="look", description=description, input_schema=_SCHEMA)
    return model.GenerateRequest(messages=messages, tools=[tool], config=config)


async def _tokens(server: Server, request: model.GenerateRequest) -> int:
    response: model.GenerateResponse = await server.send(request)
    return response.usage.input_tokens


@check
async def tools_reach_the_model(server: Server) -> str:
    """Longer descriptions, arguments and results make longer prompts; errors and unknown fields are taken."""
    plain = _request([user(_QUESTION)])
    later = model.GenerateRequest.FromString(plain.SerializeToString())
    later.tools[0].MergeFromString(_LATER)
    known = await _tokens(server, later)
    results = told([_LONG])
    results[1].parts[0].tool_call.MergeFromString(_LATER)
    short = await _tokens(server, _request(told(["A tree."])))
    pairs = {
        "the description of a tool": (known, await _tokens(server, _request([user(_QUESTION)], description=_LONG))),
        "the arguments of a call": (
            short,
            await _tokens(server, _request(told(["A tree."], arguments=f'{{"corner": "{_LONG}"}}'))),
        ),
        "a result": (short, await _tokens(server, _request(results))),
        "a second result": (short, await _tokens(server, _request(told(["A tree."], count=2)))),
    }
    await server.send(_request(told(["There is no such corner."], error=True)))
    applies(known > 0, "input_tokens is 0: there is nothing to compare")
    for case, (less, more) in pairs.items():
        least = 1 if case == "a second result" else _LEAST
        wants(more - less >= least, f"{case} is longer, and the prompt has {more} tokens in place of {less}")
    return f"{known} prompt tokens with one tool"


@check
async def tool_images_are_as_stated(server: Server) -> str:
    """An image in a result is refused, or counted as the images of a user's message are."""
    stated = server.info.tool_rendering.images
    wants(bool(stated), "CAPABILITY_TOOLS is claimed, and tool_rendering.images is unset")
    request = _request(told(["Here it is.", picture("red")]))
    if stated == model.TOOL_IMAGES_REFUSED or not server.claims("IMAGE_INPUT"):
        await server.refused(request, grpc.StatusCode.UNIMPLEMENTED, what="an image in a tool result")
        return "refused"
    response = await server.send(request)
    counts = [await _tokens(server, _request([user(*image, _QUESTION)])) for image in ([], [picture("red")])]
    without = await _tokens(server, _request(told(["Here it is."])))
    longer = response.usage.input_tokens > without or counts[1] <= counts[0]
    wants(longer, "an image makes a user's message longer, and no tool result: it was dropped")
    sizes = len(response.usage.images)
    wants(sizes in (0, 1), f"usage.images has {sizes} sizes for one image")
    how = enum_name(model.ToolImages, stated).removeprefix("TOOL_IMAGES_").lower()
    return f"{how}, {response.usage.image_tokens} tokens"


async def _called(server: Server, **fields: object) -> model.GenerateResponse | None:
    """Returns an answer to a question that wants a tool; None where the server refuses the fields."""
    request = _request([user(_QUESTION)])
    request.config.max_output_tokens = server.room
    request.MergeFrom(model.GenerateRequest(**fields))  # type: ignore[arg-type]
    try:
        response: model.GenerateResponse = await server.send(request)
    except CallError as error:
        if error.code is not grpc.StatusCode.UNIMPLEMENTED:
            raise
        return None
    return response


def _calls(response: model.GenerateResponse) -> list[model.ToolCall]:
    return [part.tool_call for part in response.parts if part.HasField("tool_call")]


@check
async def calls_are_well_formed(server: Server) -> str:
    """A call that is asked for, and what the model says to its result."""
    required = model.ToolChoice(mode=model.TOOL_CHOICE_MODE_REQUIRED)
    response = await _called(server, tool_choice=required) or await _called(server)
    if response is None:
        raise Broken("a request with tools and no choice among them: UNIMPLEMENTED")
    calls = _calls(response)
    applies(bool(calls), "the model called no tool")
    ids = [call.id for call in calls]
    wants(all(ids) and len(set(ids)) == len(ids), f"the ids of its calls are {ids}")
    kinds = [str(part.WhichOneof("kind")) for part in response.parts]
    wants(
        kinds == sorted(kinds, key="tool_call".__eq__), f"its parts are {', '.join(kinds)}: calls must follow the text"
    )
    ended = response.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
    wants(not ended, "it ended with FINISH_REASON_END_OF_SEQUENCE and has called a tool")
    message = model.Message(role=model.ROLE_ASSISTANT, parts=response.parts, opaque=response.opaque)
    message.reasoning = response.reasoning
    results = [model.Part(tool_result=model.ToolResult(tool_call_id=id_, content=user("A tree.").parts)) for id_ in ids]
    tools = model.Message(role=model.ROLE_TOOL, parts=results)
    again: model.GenerateResponse = await server.send(_request([user(_QUESTION), message, tools]))
    old = set(ids) & {call.id for call in _calls(again)}
    wants(not old, f"it used the id {min(old, default='')!r} for a second call of the conversation")
    return f"{calls[0].name[:20]!r} with {len(calls[0].arguments)} characters of arguments"


@check
async def tool_choice_is_kept(server: Server) -> str:
    """No call where none is allowed, and one at most where several are not."""
    none = await _called(server, tool_choice=model.ToolChoice(mode=model.TOOL_CHOICE_MODE_NONE))
    one = await _called(server, parallel_tool_calls=False)
    wants(none is None or not _calls(none), "it called a tool where tool_choice is none")
    count = len(_calls(one)) if one else 0
    wants(count <= 1, f"it made {count} calls where parallel_tool_calls is false")
    applies(not (none is None and one is None), "it refuses tool_choice none and parallel_tool_calls false")
    return "none and one" if none and one else "none" if none else "one"
