"""Requests put together by hand are the bytes that protobuf writes."""

from __future__ import annotations

from helpers.clips import abouts
from hypothesis import given, strategies as st

from lyncean.model.v1 import model_pb2 as model
from orchestrator.engine.wire import Request, batch_of, request_of
from orchestrator.samples import Call, Clip, Image, Message, Part, ToolCall, ToolResult

texts = st.text(max_size=9) | st.sampled_from(["x" * 127, "é" * 64, "日" * 6000])
files = st.binary(max_size=9) | st.sampled_from([bytes(n) for n in (120, 127, 128, 16_384, 3_000_000)])
contents = st.builds(Part, text=texts) | st.builds(Part, image=st.builds(Image, data=files, media_type=texts))
results = st.builds(
    ToolResult, tool_call_id=texts, content=st.lists(contents, max_size=2).map(tuple), is_error=st.booleans()
)
parts = (
    contents
    | st.builds(Part, tool_call=st.builds(ToolCall, id=texts, name=texts, arguments=texts))
    | st.builds(Part, tool_result=results)
    | st.builds(Part, clip=st.builds(Clip, data=files, about=abouts))
)
conversations = st.lists(
    st.builds(
        Message,
        role=st.sampled_from([0, 1, 2, 3, 4]),
        parts=st.lists(parts, max_size=2).map(tuple),
        reasoning=texts,
        opaque=st.binary(max_size=9),
    ),
    max_size=2,
).map(tuple)
tools = st.lists(st.builds(model.Tool, name=texts, description=texts), max_size=2)
configs = st.builds(
    model.GenerationConfig,
    max_output_tokens=st.none() | st.integers(0, 2**32 - 1),
    temperature=st.none() | st.floats(0, 2, width=32),
    stop=st.lists(texts, max_size=2),
)


def proto(message: Message) -> model.Message:
    converted = model.Message(role=message.role, reasoning=message.reasoning, opaque=message.opaque)
    converted.parts.extend(map(proto_part, message.parts))
    return converted


def proto_part(part: Part) -> model.Part:
    converted = model.Part()
    if part.clip:
        medium = getattr(converted, part.clip.kind)
        medium.CopyFrom(part.clip.about)
        medium.data = part.clip.data
    elif part.image:
        converted.image.CopyFrom(model.Image(data=part.image.data, media_type=part.image.media_type))
    elif call := part.tool_call:
        converted.tool_call.CopyFrom(model.ToolCall(id=call.id, name=call.name, arguments=call.arguments))
    elif result := part.tool_result:
        converted.tool_result.tool_call_id = result.tool_call_id
        converted.tool_result.is_error = result.is_error
        converted.tool_result.content.extend(map(proto_part, result.content))
    else:
        converted.text = part.text
    return converted


@given(conversations, configs, st.sampled_from([0, 1, 2]), tools)
def test_generate(
    messages: tuple[Message, ...], config: model.GenerationConfig, modality: int, tools: list[model.Tool]
) -> None:
    built = request_of(Call(messages, config, modality=modality, tools=tuple(tools)))
    expected = model.GenerateRequest(messages=map(proto, messages), config=config, modality=modality, tools=tools)
    assert built.method == "Generate"
    assert built.data == expected.SerializeToString()


@given(conversations, st.lists(texts, min_size=1, max_size=3).map(tuple))
def test_likelihood(messages: tuple[Message, ...], continuations: tuple[str, ...]) -> None:
    built = request_of(Call(messages, continuations=continuations))
    expected = model.LikelihoodRequest(messages=map(proto, messages), continuations=continuations)
    assert built.method == "Likelihood"
    assert built.data == expected.SerializeToString()


@given(st.lists(st.tuples(st.booleans(), conversations, texts), max_size=4))
def test_batch(calls: list[tuple[bool, tuple[Message, ...], str]]) -> None:
    requests: list[Request] = []
    expected = model.BatchRequest()
    for generate, messages, continuation in calls:
        requests.append(request_of(Call(messages, continuations=() if generate else (continuation,))))
        data = requests[-1].data
        if generate:
            expected.calls.append(model.BatchCall(generate=model.GenerateRequest.FromString(data)))
        else:
            expected.calls.append(model.BatchCall(likelihood=model.LikelihoodRequest.FromString(data)))
    assert batch_of([(request, request.chunks) for request in requests]) == expected.SerializeToString()
