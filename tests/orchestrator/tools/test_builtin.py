"""Built-in tools: what they make of an image, and the place in it that a crop has."""

from __future__ import annotations

import io
import json

import pytest
from helpers.trajectories import play, png
from PIL import Image

from orchestrator.samples import Answer, Call, ToolCall, image_part, text_part, user
from orchestrator.tools import builtin
from orchestrator.tools.toolbox import toolbox
from orchestrator.tools.types import Picture


def pieces_of(name, **arguments):
    """Calls a tool on an image of 40 x 20 pixels, dark in its left upper quarter; returns the picture and the image."""
    text, picture = builtin.TOOLS[name].call(json.dumps({"image": 1} | arguments), [Picture(png(40, 20))]).content
    image = Image.open(io.BytesIO(picture.data))
    assert text.text == f"Image 2, {image.width} x {image.height} pixels:"
    assert picture.source == 0
    return picture, image


def test_zoom_enlarges_a_box_of_thousandths():
    picture, image = pieces_of("zoom", box=[0, 0, 500, 1000])
    assert (picture.box, image.size) == ((0, 0, 20, 20), (512, 512))
    assert (image.getpixel((9, 9)), image.getpixel((9, 500))) == ((9, 9, 9), (200, 30, 90))


@pytest.mark.parametrize(
    ("name", "arguments", "size", "corner"),
    [
        ("resize", {"width": 10, "height": 30}, (10, 30), (9, 9, 9)),
        ("rotate", {"degrees": 90}, (20, 40), (200, 30, 90)),
        ("flip", {"direction": "horizontal"}, (40, 20), (200, 30, 90)),
        ("flip", {"direction": "vertical"}, (40, 20), (200, 30, 90)),
        ("draw_boxes", {"boxes": [[0, 0, 1000, 1000]]}, (40, 20), (0xE6, 0x19, 0x4B)),
        ("draw_points", {"points": [[0, 0], [500, 500]]}, (40, 20), (0xE6, 0x19, 0x4B)),
        ("grid", {"rows": 2, "columns": 4}, (40, 20), (9, 9, 9)),
    ],
)
def test_the_other_tools_make_a_new_image(name, arguments, size, corner):
    picture, image = pieces_of(name, **arguments)
    assert (picture.box, image.size, image.getpixel((0, 0))) == (None, size, corner)


def test_a_stored_image_is_turned_as_servers_turn_it():
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png(40, 20))).save(buffer, "PNG", exif=exif)
    output = builtin.TOOLS["zoom"].call('{"image": 1, "box": [0, 0, 1000, 500]}', [Picture(buffer.getvalue())])
    assert output.content[1].box == (0, 0, 20, 20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"image": 2, "box": [0, 0, 9, 9]}', "There is no image 2: the last one is 1."),
        ('{"image": 1, "box": [9, 0, 9, 9]}', "zoom failed: the box is empty: left must be below right, and top below"),
        ('{"image": 1, "box": [0, 0, 1, 1]}', "zoom failed: "),
        ('{"image": 1}', "The arguments of zoom cannot be used: 'box' is a required property"),
        ('{"image": 1, "box": [0, 0, 9, 1001]}', "The arguments of zoom cannot be used: 1001 is greater than the max"),
    ],
)
def test_the_model_is_told_what_is_wrong(arguments, message):
    output = builtin.TOOLS["zoom"].call(arguments, [Picture(png(40, 20))])
    assert output.is_error
    assert output.content[0].text.startswith(message)


def test_later_calls_may_name_images_of_tools():
    box = toolbox(["zoom", "flip"])
    zoom = ToolCall("a", "zoom", '{"image": 1, "box": [0, 0, 1000, 1000]}')
    flip = ToolCall("b", "flip", '{"image": 2, "direction": "vertical"}')
    answers = iter([Answer(tool_calls=(zoom, flip)), Answer("B")])
    played = play(box, Call((user(image_part(png(40, 20)), text_part("Q?")),)), lambda _: next(answers))
    assert [output.content[1].source for output in played.outputs] == [0, 1]
    assert [tool.name for tool in played.requests[0].tools] == ["zoom", "flip"]
    assert (len(played.requests[1].messages), played.final) == (3, "B")


def test_the_hash_of_a_run_depends_on_tools_and_protocol():
    hashes = {toolbox(["zoom"]).sha256, toolbox(["zoom", "grid"]).sha256, toolbox(["zoom"], "qwen").sha256}
    assert len(hashes) == 3
    assert toolbox(["zoom"]).sha256 == toolbox(["zoom"]).sha256
