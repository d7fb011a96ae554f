"""Calls of every bad kind: an error for the model as its protocol says, never executed, nothing lost."""

from __future__ import annotations

import json
import random
import string

import pytest
from helpers.trajectories import play, png

from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import Answer, Call, ToolCall, ToolResult, image_part, text_part, user
from orchestrator.tools import builtin, spec
from orchestrator.tools.arguments import MAX_CALLS, MAX_CHARACTERS, read_literal
from orchestrator.tools.pixels import MAX_PIXELS
from orchestrator.tools.toolbox import toolbox
from orchestrator.tools.types import Picture

PICTURES = [Picture(png(30, 20)), Picture(b"no image"), Picture(png(4, 4), source=0, box=(0, 0, 4, 4))]
BAD = [
    "",
    "{",
    "null",
    "[]",
    "7",
    '"box"',
    "{}",
    '{"bbox_2d": 5, "box": 5, "img_idx": 0, "image": 1}',
    '{"bbox_2d": [1, 2, 3], "box": [1, 2, 3], "label": "", "img_idx": 0, "image": 1}',
    '{"bbox_2d": ["a", "b", "c", "d"], "box": ["a", "b", "c", "d"], "label": "", "img_idx": 0, "image": 1}',
    '{"bbox_2d": [NaN, 0, 9, 9], "box": [NaN, 0, 9, 9], "label": "", "img_idx": 0, "image": 1}',
    '{"bbox_2d": [0, 0, 1e999, 9], "box": [0, 0, 1e999, 9], "label": "", "img_idx": 0, "image": 1}',
    '{"bbox_2d": [9, 9, 1, 1], "box": [900, 900, 100, 100], "label": "", "img_idx": 0, "image": 1}',
    '{"bbox_2d": [0, 0, 99999, 99999], "box": [0, 0, 99999, 99999], "label": "", "img_idx": 9, "image": 9}',
    '{"bbox_2d": [0, 0, 9, 9], "box": [0, 0, 9, 9], "label": "", "img_idx": 1, "image": 2, "more": 1}',
    "[" * 100_000,
    "(" * 100_000 + ")" * 100_000,
    '{"bbox_2d": ' * 5_000,
    "x" * (MAX_CHARACTERS + 1),
    "-" * 60_000 + "1",
    '{"bbox_2d": [' + "9" * 60_000 + ", 0, 1, 1]}",
    "__import__('os').abort()",
    "{'bbox_2d': [__import__('os').abort(), 0, 1, 1]}",
]
CLAMPED = {("qwen", 10), ("qwen", 11), ("deepeyes", 14)}
"""Arguments that a protocol takes: its reference clamps NaN and infinity, or ignores the index."""


@pytest.mark.parametrize("name", [name for name in spec.names() if not spec.load(name).code])
@pytest.mark.parametrize("arguments", BAD, ids=range(len(BAD)))
def test_bad_arguments_are_an_error_for_the_model(name, arguments):
    box = toolbox(["zoom"], name)
    tool = box.tools[0].describe().name
    output = box.protocol.call(ToolCall("1", tool, arguments), box.tools, PICTURES)
    if (name, BAD.index(arguments)) in CLAMPED:
        assert isinstance(output.content[0], Picture)
        return
    assert output.is_error
    assert output.content[0].text
    assert len(output.content[0].text) < 2 * MAX_CHARACTERS


@pytest.mark.parametrize("name", builtin.TOOLS)
@pytest.mark.parametrize("arguments", BAD, ids=range(len(BAD)))
def test_bad_arguments_of_built_in_tools(name, arguments):
    output = toolbox([name]).protocol.call(ToolCall("1", name, arguments), toolbox([name]).tools, PICTURES)
    assert output.is_error
    assert "\n" not in output.content[0].text


@pytest.mark.parametrize(
    "text", ["{'a': b}", "[1 + 1]", "f'{1}'", "b'1'", "{1: 2}", "'a' 'b'", "[1,,2]", "{'a'}", "1 2", "..", "'a\nb'"]
)
def test_what_is_no_literal_is_not_read(text):
    with pytest.raises(ValueError, match="expected at character"):
        read_literal(text, "python")


@pytest.mark.parametrize(
    ("text", "syntax", "value"),
    [
        ("{'a': (1, -2.5e1, .5,), \"b\": [True, None,],}", "python", {"a": [1, -25, 0.5], "b": [True, None]}),
        (r"'\x41\u00e9\n\q\''", "python", "Aé\n\\q'"),
        ("(1)", "python", 1),
        ("1_000 # thousand", "python", 1000),
        (
            "{a: +1, 'b': 0x1F, c: Infinity, /* x */ d: 'it\\\ns', }// end",
            "json5",
            {"a": 1, "b": 31, "c": float("inf"), "d": "its"},
        ),
    ],
)
def test_literals_are_read_as_data(text, syntax, value):
    assert read_literal(text, syntax) == value


def test_a_box_beyond_all_bounds_is_not_cut():
    side = int(MAX_PIXELS**0.5) + 1
    text = f'<tool_call>{{"arguments": {{"bbox_2d": [0, 0, {side}, {side}]}}}}</tool_call>'
    call = Call((user(image_part(png(9, 9)), text_part("Q?")),))
    played = play(toolbox(["zoom"], "deepeyes"), call, lambda _: Answer(text))
    assert played.outputs[0].is_error
    assert "is too large" in played.outputs[0].content[0].text


def test_a_thousand_calls_of_one_answer_have_a_thousand_results():
    box = toolbox(["flip"])
    calls = tuple(ToolCall(str(n), "flip", '{"image": 1, "direction": "vertical"}') for n in range(1000))
    answer = Answer(tool_calls=calls)
    parsed = box.protocol.read(answer)
    outputs = [box.protocol.call(call, box.tools, PICTURES) for call in parsed]
    assert sum(not output.is_error for output in outputs) == MAX_CALLS
    results = [
        ToolResult(call.id, (text_part("x"),), output.is_error) for call, output in zip(parsed, outputs, strict=True)
    ]
    assistant_message, tool_message = box.protocol.next(answer, results, 0)
    assert tuple(part.tool_call for part in assistant_message.parts) == calls
    assert [part.tool_result.tool_call_id for part in tool_message.parts] == [call.id for call in calls]
    assert (assistant_message.role, tool_message.role) == (model.ROLE_ASSISTANT, model.ROLE_TOOL)


def test_a_thousand_calls_of_one_text_are_bounded():
    box = toolbox(["zoom"], "qwen")
    assert len(box.protocol.read(Answer('<tool_call>{"name": "x", "arguments": {}}</tool_call>' * 1000))) == MAX_CALLS


def test_unknown_tools_are_told_to_the_model():
    box = toolbox(["zoom", "grid"])
    output = box.protocol.call(ToolCall("1", "rm", "{}"), box.tools, PICTURES)
    assert (output.is_error, output.content[0].text) == (True, "There is no tool rm. The tools are: zoom, grid.")


def _good(name: str, rng: random.Random) -> str:
    box = [rng.randint(0, 30) for _ in range(4)]
    if name == "mini-o3":
        return f'<think>So.</think> <grounding>{{"bbox_2d": {[0, 0, 1, 1]}, "source": "original_image"}}</grounding>'
    arguments = {"bbox_2d": box, "label": "x", "img_idx": rng.choice([0, 1, 5]), "target_image": 1}
    if name == "pixel-reasoner":
        arguments["bbox_2d"] = [0, 0, 0.9, 0.9]
    call = json.dumps({"name": toolbox(["zoom"], name).tools[0].describe().name, "arguments": arguments})
    return f"<think>So.</think> <tool_call>{call}</tool_call>"


PIECES = ("", *"{}[]'\",:\\\0-é", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "</think>", "null", "1e999")
PIECES += ("__import__('os').abort()",)


def _mutated(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(text) + 1)
        piece = rng.choice([*PIECES, rng.choice(string.printable)])
        text = text[:start] + piece + text[start + rng.choice([0, 1, 1, 8]) :]
    return text


@pytest.mark.parametrize("name", [name for name in spec.names() if not spec.load(name).code])
def test_ten_thousand_fuzzed_answers_are_calls_errors_or_final(name):
    """Nothing raises; what is a call has a result, what is none is a final answer or asked again."""
    rng, box, seen = random.Random(name), toolbox(["zoom"], name), {"call": 0, "error": 0, "final": 0, "again": 0}
    pictures = [Picture(png(12, 12))]
    for turn in range(2_500):
        answer = Answer(_mutated(_good(name, rng), rng))
        calls = box.protocol.read(answer)
        results = []
        for call in calls[:2]:
            output = box.protocol.call(call, box.tools, pictures)
            seen["error" if output.is_error else "call"] += 1
            content = tuple(image_part(piece.data) if isinstance(piece, Picture) else piece for piece in output.content)
            results.append(ToolResult(call.id, content, output.is_error))
        if calls:
            box.protocol.next(answer, results, turn)
        else:
            seen["again" if box.protocol.again(answer) else "final"] += 1
        assert isinstance(box.protocol.final(answer).text, str)
    assert {kind for kind, count in seen.items() if count} >= {"call", "error", "final"}
