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
    "mini-o3": {"system": (716, "1f02ab1e7ee8"), "result": (437, "458eedb7fa14"), "error": (156, "45cd090790af")},
    "pixel-reasoner": {
        "lines": (1044, "8c0133fd3817"),
        "template": (384, "9dd0adbb0bab"),
        "guidelines": (344, "a03bb96ccd72"),
    },
    "deepeyesv2": {"system": (2106, "7089107db80b"), "user": (295, "5335318eb94c"), "printed": (83, "407573474be1")},
    "thyme": {"system": (1059, "c5e7db635963"), "user": (317, "8f996d3fd8fe")},
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
    protocol, expected = spec.load(name), PROMPTS[name]
    lines = "\n".join(line for line in _filled(protocol).splitlines() if line.startswith('{"type": "function"'))
    result = "".join(protocol.result.parts).replace("{content}", "<|vision_start|><|image_pad|><|vision_end|>")
    texts = {
        "system": protocol.system.replace("{tools}", "{tool_descs}"),
        "suffix": protocol.suffix,
        "line": protocol.tool.line,
        "guidelines": protocol.suffix.removeprefix("\n\n"),
        "lines": lines,
        "template": _filled(protocol).replace(lines, "{tool_descs}").removeprefix("You are a helpful assistant.\n\n"),
        "result": result.replace("{turn}", "{action_turn}").replace("{observation}", "{observation_turn}"),
        "error": "".join(protocol.result.error).partition("\n")[2],
        "user": _user(protocol),
        "printed": protocol.result.parts[0],
    }
    assert {part: _mark(texts[part]) for part in expected} == expected
    assert protocol.name == name


def _user(protocol):
    """Returns the text around the question with the names that its source has for the places in it."""
    places = {"{path}": "{user_image_path}", "{size}": "{user_image_size}"}
    question, suffix = "{user_question}" if protocol.lead else "{question}", protocol.suffix
    for ours, source_name in places.items():
        suffix = suffix.replace(ours, source_name)
    return protocol.lead + question + suffix


def _filled(protocol):
    return protocol.system.replace("{tools}", protocol.tool.line)


def test_deepeyes_cuts_the_first_call_and_repeats_the_turn_text():
    box, turn = toolbox(["zoom"], "deepeyes"), spec.load("deepeyes").suffix
    answer = (
        '<tool_call>{"name": "x", "arguments": {"bbox_2d": (-10, 2, 50.5, 60,)}}</tool_call> <tool_call>{}</tool_call>'
    )
    answers = iter([Answer(answer), Answer("<think></think> <answer> B </answer>")])
    played = play(box, _question(png(100, 80)), lambda _: next(answers))
    first, second = played.requests
    assert first.messages[0] == system(spec.load("deepeyes").system)
    assert _texts(first)[1:] == [["<image>", f"Q?{turn}"]]
    assert (first.config.max_output_tokens, first.config.temperature) == (10240, 0)
    assert list(first.config.stop) == ["<|im_end|>"]
    assert second.messages[2] == assistant(answer)
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
    answer = f"<think>x <tool_call>no</tool_call></think> look {call}"
    answers = iter([Answer(answer), Answer("B")])
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
    message = (
        "An error occurred when calling tool `image_zoom_in_tool`:\nValidationError: 'img_idx' is a required property"
    )
    assert error.startswith(message)
    (picture,) = played.outputs[0].content
    assert Image.open(io.BytesIO(picture.data)).size == (1504, 992)
    assert (picture.box, played.final) == ((0, 0, 1500, 1000), "B")


def test_mini_o3_looks_at_observations_in_their_full_resolution():
    box = toolbox(["zoom"], "mini-o3")
    look = '<think></think><grounding>{"bbox_2d": [%s], "source": "%s"}'
    texts = [
        look % ("0.5, 0, 1.0, 1", "original_image"),
        look % ("0, 0, 0.5, 0.5", "observation_1"),
        look % ("0, 0, 0.5", "observation_1"),
        look % ("0, 0, 1, 1", "observation_7"),
        "<grounding>nothing",
        "<answer>A</answer> <answer>B</answer>",
    ]
    answers = iter(map(Answer, texts))
    played = play(box, _question(png(200, 100)), lambda _: next(answers))
    first, second = (output.content[0] for output in played.outputs[:2])
    sources = [(picture.source, picture.box) for picture in (first, second)]
    assert sources == [(0, (100, 0, 199, 99)), (1, (0, 0, 49, 49))]
    request = played.requests[2]
    assert request.messages[2].parts[0].text.endswith("}</grounding>")
    before, image, after = request.messages[5].parts
    assert before.text == "After the above Action 1, here is the the zoom-in image (Observation 2):\n"
    assert after.text.startswith(".\nContinue your reasoning process")
    shown = Image.open(io.BytesIO(image.image.data))
    assert (shown.size, shown.mode) == ((200, 200), "RGB")
    errors = [output.content[0].text for output in played.outputs[2:]]
    assert errors == ["", "range object index out of range", "'NoneType' object has no attribute 'group'"]
    message = (
        "ERROR occurs during grounding. Error Information: 'NoneType' object has no attribute 'group'.\nPlease analyze"
    )
    assert played.requests[5].messages[-1].parts[0].text.startswith(message)
    assert (played.final, played.requests[0].config.temperature) == ("B", 1)


def test_mini_o3_without_an_answer_has_none():
    played = play(toolbox(["zoom"], "mini-o3"), _question(png(20, 20)), lambda _: Answer("It is B."))
    assert (len(played.requests), played.final) == (1, "")
    looked = '<grounding>{"bbox_2d": [0, 0, 1, 1], "source": "original_image"}</grounding>'
    played = play(toolbox(["zoom"], "mini-o3"), _question(png(20, 20)), lambda _: Answer(looked))
    assert (len(played.requests), played.final) == (12, "")


def test_pixel_reasoner_crops_the_image_as_it_was_sent():
    box = toolbox(["zoom"], "pixel-reasoner")
    call = '<tool_call>\n{"name": "%s", "arguments": {"bbox_2d": %s, "target_image": %s}}\n</tool_call>'
    texts = [
        "One. " + call % ("crop_image_normalized", "[0.25, 0.5, 0.5, 0.75]", 1),
        call % ("crop_image_normalized", "[0.5, 0.5, 0.5, 0.5]", 3),
        call % ("select_frames", "[]", 1),
        call % ("crop_image", "[]", 1),
        call % ("crop_image_normalized", "[0, 0, 1, 1]", 1) + " So it is \\boxed{B}.",
    ]
    answers = iter(map(Answer, texts))
    played = play(box, _question(png(300, 200)), lambda _: next(answers))
    assert Image.open(io.BytesIO(played.requests[0].messages[1].parts[0].image.data)).size == (560, 392)
    crop = played.outputs[0].content[0]
    assert crop.box == pytest.approx((0.15 * 560, 0.4 * 392, 0.6 * 560, 0.85 * 392))
    assert crop.source_size == (560, 392)
    text, image = played.requests[1].messages[-1].parts
    width, height = Image.open(io.BytesIO(image.image.data)).size
    assert text.text == f"\nHere is the cropped image (Image Size: {width}x{height}):"
    errors = [output.content[0].text for output in played.outputs[1:]]
    assert errors[0].endswith("You can only pick an image within [1,2]")
    assert errors[1].startswith("Execution Error: You attempted to `select_frames` from **image**")
    assert errors[2] == "'crop_image'"
    assert played.requests[4].messages[-1].parts[0].text == "\nExecution error:\n'crop_image'\n"
    assert played.final == texts[-1]


def test_pixel_reasoner_stops_calling_after_four_calls():
    arguments = '{"name": "crop_image_normalized", "arguments": {"bbox_2d": [0, 0, 9, 9], "target_image": 0}}'
    call = f"<tool_call>{arguments}</tool_call>"
    played = play(toolbox(["zoom"], "pixel-reasoner"), _question(png(300, 200)), lambda _: Answer(call))
    assert (len(played.requests), len(played.outputs), played.final) == (5, 4, call)


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
