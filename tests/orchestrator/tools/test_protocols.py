"""Text protocols: prompts are exact, calls are read as their references read them, results stand where they stood."""

from __future__ import annotations

import hashlib
import io
import json

import pytest
from helpers.trajectories import play, png
from PIL import Image

from orchestrator.errors import ConfigError
from orchestrator.samples import Answer, Call, ToolCall, assistant, image_part, system, text_part, user
from orchestrator.tools import spec
from orchestrator.tools.toolbox import toolbox
from orchestrator.tools.types import Picture

PROMPTS = {
    "deepeyes": {"system": (1166, "1fc5b8b5ebdc"), "suffix": (174, "e46e076069f5")},
    "qwen": {"system": (384, "9dd0adbb0bab"), "line": (751, "c250da2626bc")},
}
"""Characters and hash of each text as the references have it."""


def _mark(text: str) -> tuple[int, str]:
    return len(text), hashlib.sha256(text.encode()).hexdigest()[:12]


def _question(*images: bytes, text: str = "Q?") -> Call:
    return Call((user(*map(image_part, images), text_part(text)),))


def _texts(call: Call) -> list[list[str]]:
    return [["<image>" if part.image else part.text for part in message.parts] for message in call.messages]


@pytest.mark.parametrize("name", spec.names())
def test_texts_are_exact_to_the_last_blank(name):
    found, expected = spec.load(name), PROMPTS[name]
    texts = {
        "system": found.system.replace("{tools}", "{tool_descs}"),
        "suffix": found.suffix,
        "line": found.tool.line,
    }
    assert {place: _mark(texts[place]) for place in expected} == expected
    assert found.name == name
    assert found.tool.line in found.system.replace("{tools}", found.tool.line)


def test_deepeyes_cuts_the_first_call_and_repeats_the_turn_text():
    box, turn = toolbox(["zoom"], "deepeyes"), spec.load("deepeyes").suffix
    said = (
        '<tool_call>{"name": "x", "arguments": {"bbox_2d": (-10, 2, 50.5, 60,)}}</tool_call> <tool_call>{}</tool_call>'
    )
    answers = iter([Answer(said), Answer("<think></think> <answer> B </answer>")])
    played = play(box, _question(png(100, 80)), lambda _: next(answers))
    first, second = played.requests
    assert first.messages[0] == system(spec.load("deepeyes").system)
    assert _texts(first)[1:] == [["<image>", f"Q?{turn}"]]
    assert (first.config.max_output_tokens, first.config.temperature) == (10240, 0)
    assert list(first.config.stop) == ["<|im_end|>"]
    assert second.messages[2] == assistant(said)
    assert _texts(second)[3] == ["<tool_response>", "<image>", turn, "</tool_response>"]
    (picture,) = played.outputs[0].content
    assert (picture.source, picture.box) == (0, (-10, 2, 50.5, 60))
    crop = Image.open(io.BytesIO(picture.data))
    assert (crop.size, crop.getpixel((0, 30))) == ((56, 56), (0, 0, 0))
    assert played.final == "B"


@pytest.mark.parametrize(
    "call", ["{", "[1]", "{'arguments': {}}", "{'arguments': {'bbox_2d': [0, 0, 1 + 9, 9]}}", "__import__('os')"]
)
def test_a_call_that_deepeyes_cannot_use_ends_the_trajectory(call):
    played = play(toolbox(["zoom"], "deepeyes"), _question(png(9, 9)), lambda _: Answer(f"It is A. <tool_call>{call}"))
    assert len(played.requests) == 1
    assert played.outputs[0].is_error
    assert played.final == f"It is A. <tool_call>{call}"


def test_deepeyes_is_asked_again_unchanged_without_call_and_answer():
    played = play(toolbox(["zoom"], "deepeyes"), _question(png(9, 9)), lambda _: Answer("Hm."))
    assert len(played.requests) == 11
    assert all(request == played.requests[0] for request in played.requests)
    assert played.final == "Hm."


def test_qwen_reads_all_calls_and_writes_them_anew():
    box = toolbox(["zoom"], "qwen")
    one = "{name: 'image_zoom_in_tool', arguments: {bbox_2d: [0, 0, 500, 500,], label: 'a', img_idx: 0}}"
    two = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, 9, 9], "label": "b"}}'
    call = f"<tool_call>{one}</tool_call> lost <tool_call>{two}</tool_call>"
    said = f"<think>x <tool_call>no</tool_call></think> look {call}"
    answers = iter([Answer(said), Answer("B")])
    played = play(box, _question(png(3000, 2000), text="Q?"), lambda _: next(answers))
    first, second = played.requests
    assert _texts(first)[1] == ["(Uploaded ![image](image_1.jpg)) ", "<image>", "Q?"]
    shown = Image.open(io.BytesIO(first.messages[1].parts[1].image.data))
    assert (shown.format, shown.size) == ("JPEG", (1620, 1080))
    head, rebuilt = "<think>x <tool_call>no</tool_call></think> look \n", '{"name": "image_zoom_in_tool", "arguments": '
    assert _texts(second)[2] == [
        head
        + f'<tool_call>\n{rebuilt}{{"bbox_2d": [0, 0, 500, 500], "label": "a", "img_idx": 0}}}}\n</tool_call>\n'
        + f'<tool_call>\n{rebuilt}{{"bbox_2d": [0, 0, 9, 9], "label": "b"}}}}\n</tool_call>'
    ]
    *before, error, _ = _texts(second)[3]
    assert before == ["<tool_response>\n", "<image>", "\n</tool_response>", "\n", "<tool_response>\n"]
    words = (
        "An error occurred when calling tool `image_zoom_in_tool`:\nValidationError: 'img_idx' is a required property"
    )
    assert error.startswith(words)
    (picture,) = played.outputs[0].content
    assert Image.open(io.BytesIO(picture.data)).size == (1504, 992)
    assert (picture.box, played.final) == ((0, 0, 1500, 1000), "B")


def test_qwen_is_told_that_there_is_no_such_tool_or_image():
    protocol, tools = (box := toolbox(["zoom"], "qwen")).protocol, box.tools
    picture = [Picture(png(40, 40))]
    output = protocol.call(ToolCall("1", "rm", "{}"), tools, picture)
    assert (output.is_error, output.content[0].text) == (True, "Tool rm does not exists.")
    arguments = json.dumps({"bbox_2d": [0, 0, 9, 9], "label": "", "img_idx": 4})
    output = protocol.call(ToolCall("1", "image_zoom_in_tool", arguments), tools, picture)
    assert output.content[0].text == "Error: Invalid input image, there are 1"


def test_names_of_tools_and_protocols_are_checked():
    with pytest.raises(ConfigError, match="there is no tool 'saw'; there are zoom"):
        toolbox(["saw"])
    with pytest.raises(ConfigError, match="there is no 'deepyes'; there are native, deepeyes"):
        toolbox(["zoom"], "deepyes")
    with pytest.raises(ConfigError, match="has the tool zoom alone"):
        toolbox(["zoom", "grid"], "deepeyes")
