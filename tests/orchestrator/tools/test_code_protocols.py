"""Protocols whose tool runs code: what is run, what the model is shown of it, and when it is asked again."""

from __future__ import annotations

import io
import json
import random
import string

import pytest
from helpers.trajectories import play, png
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.tool.v1 import tool_pb2 as pb
from orchestrator.errors import ConfigError
from orchestrator.samples import Answer, Call, image_part, text_part, user
from orchestrator.tools import spec
from orchestrator.tools.toolbox import toolbox
from orchestrator.tools.types import MADE, Picture, ToolOutput

SERVER = pb.ListToolsResponse(tools=[model.Tool(name="python")], revision="1", stateful=True, max_concurrency=1)
CODES = [name for name in spec.names() if spec.load(name).code]
NOTHING = "[no output]"


class Trajectory:
    """A trajectory in which a model says texts and code shows outputs."""

    def __init__(self, name, says, *shows, image=None):
        self.codes, self.images, shown = [], [], iter(shows)

        def run(call, pictures):
            self.codes.append(json.loads(call.arguments)["code"])
            self.images.append(pictures)
            return next(shown)

        question = Call((user(image_part(image or png(200, 150)), text_part("Q?")),))
        answers = iter(says)
        played = play(toolbox([], name, [SERVER]), question, lambda _: Answer(next(answers)), run)
        self.requests, self.final = played.requests, played.final

    def message(self, request, index=-1):
        parts = self.requests[request].messages[index].parts
        return [size(part.image.data) if part.image else part.text for part in parts]


def size(data):
    with Image.open(io.BytesIO(data)) as image:
        return f"<{image.format} {image.width}x{image.height}>"


def shown(*pieces, is_error=False):
    content = tuple(Picture(piece, source=MADE) if isinstance(piece, bytes) else text_part(piece) for piece in pieces)
    return ToolOutput(content, is_error)


def test_deepeyesv2_runs_the_code_of_an_answer_and_shows_its_streams():
    says = [
        " <think>So.</think>\n<code>\n```python\nprint(image_1.size)\n```\n",
        "<code>1/0",
        "<code>x</code> <code>y</code>",
        "<answer> B </answer>",
    ]
    seen = png(60, 60)
    bright = Image.new("RGB", (50, 40), (251, 250, 255))
    buffer = io.BytesIO()
    bright.save(buffer, "PNG")
    outputs = shown("(196, 140)\n", png(50, 40)), shown("so\n", "ZeroDivisionError\n", is_error=True), shown(NOTHING)
    played = Trajectory("deepeyesv2", says, outputs[0], outputs[1], outputs[2])
    assert played.codes == ["print(image_1.size)", "1/0", "x"]
    assert played.final == "B"
    assert played.message(0, 1)[0] == "<PNG 196x140>", "the image as the client resizes it"
    assert [size(picture.data) for picture in played.images[0]] == ["<PNG 196x140>"]
    assert played.message(1, 2) == ["<think>So.</think>\n<code>\n```python\nprint(image_1.size)\n```</code>"]
    template = "Code execution result:\nstdout:\n```\n{}\n```\n\nstderr:\n```\n{}\n```\n\nImages:\n"
    assert played.message(1) == [template.format("(196, 140)\n", ""), "<JPEG 84x56>"]
    assert played.message(2) == [template.format("so\n", "ZeroDivisionError\n")]
    assert played.message(3) == [template.format("", "")]
    white_out = Trajectory("deepeyesv2", ["<code>x</code>", "<answer>A"], shown(buffer.getvalue(), seen))
    assert white_out.message(1)[1:] == ["<JPEG 56x56>"], "the first one is white"
    assert white_out.final == "<answer>A"


def test_deepeyesv2_is_asked_again_and_ends_at_an_answer_that_is_begun():
    played = Trajectory("deepeyesv2", ["Hm."] * 11)
    assert (len(played.requests), played.final) == (11, "Hm.")
    assert all(request == played.requests[0] for request in played.requests)
    assert Trajectory("deepeyesv2", ["<CODE>x</CODE>"] * 11).codes == []
    played = Trajectory("deepeyesv2", ["<answer>A <code>x</code>"])
    assert (played.codes, played.final) == ([], "<answer>A <code>x</code>")
    config = played.requests[0].config
    assert (config.max_output_tokens, config.temperature, list(config.stop)) == (20480, 0, ["</code>", "<|im_end|>"])


def test_thyme_knows_the_file_and_is_shown_images_or_words():
    jpeg = io.BytesIO()
    Image.new("RGB", (90, 70)).save(jpeg, "JPEG")
    says = ["<think>So <CODE>python\nx = 1", "<code>```python\nprint(x)\n```</code>", "<answer>\\boxed{C}"]
    output = shown("/session/a.png\n", png(70, 64))
    played = Trajectory("thyme", [says[0] + "</code>", *says[1:]], output, shown("7\n"), image=jpeg.getvalue())
    assert played.codes == ["x = 1", "print(x)"]
    _, text = played.message(0, 1)
    file = '### User Image Path:** "/session/image_1.jpg"\n### User Image Size:** "90x70"'
    assert text.startswith(f"<image>\nQ?\n\n{file}\n\n### **Output Format")
    assert played.message(1) == ["<sandbox_output>", "<PNG 70x64>", "</sandbox_output>"]
    assert played.message(2) == ["<sandbox_output>", "7", "</sandbox_output>"]
    assert played.final == "\\boxed{C}"


def test_thyme_is_asked_again_after_an_error_and_where_nothing_is_shown():
    says = ["<code>1/0"] * 2 + ["<code>print(1)"] + ["Hm."] * 2
    played = Trajectory("thyme", says, shown("ZeroDivisionError", is_error=True), shown(NOTHING), shown("1\n"))
    assert [len(request.messages) for request in played.requests] == [2, 2, 2, 4, 4]
    assert (played.requests[1], played.requests[2]) == (played.requests[0],) * 2
    assert played.final == "", "the limit of calls"


@pytest.mark.parametrize("name", CODES)
def test_fuzzed_answers_are_calls_or_final(name):
    """Nothing raises; what is a call is code as text."""
    rng, box = random.Random(name), toolbox([], name, [SERVER])
    pieces = ["<code>", "</code>", "<answer>", "</answer>", "```", "```python", "python", "\n", "é", "\0", "x = 1"]
    kinds = set()
    for _ in range(2_000):
        text = "".join(rng.choice([*pieces, rng.choice(string.printable)]) for _ in range(rng.randint(0, 14)))
        answer = Answer(text)
        calls = box.protocol.read(answer)
        for call in calls:
            sent = box.protocol.call(call, box.tools, ())
            assert (sent.server, sent.name, list(json.loads(sent.arguments))) == (0, "python", ["code"])
        kinds.add(len(calls) or ("again" if box.protocol.again(answer) else "final"))
        assert isinstance(box.protocol.final(answer).text, str)
    assert kinds == {1, "again", "final"}


def test_the_tool_must_be_there():
    other = pb.ListToolsResponse(tools=[model.Tool(name="search")])
    for names, servers in ((["zoom"], []), ([], [other])):
        with pytest.raises(ConfigError, match="has the tool python of a server alone: start `tool-server sandbox`"):
            toolbox(names, "thyme", servers)
