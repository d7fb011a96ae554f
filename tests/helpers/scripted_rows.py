"""Questions on synthetic images, and what a scripted model says to each request: good calls, bad ones, answers.

The references of the protocols were run on them; their transcripts are in `tests/fixtures`.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw

LETTERS = "ABCD"
CODES = ("deepeyesv2", "thyme")
"""Protocols whose model writes code."""


@dataclass(frozen=True)
class ScriptedRow:
    """A question, its image, and the model's texts in the order of the requests; the last one is said again."""

    number: int
    image: bytes
    options: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def question(self) -> str:
        """The question; the number in it tells the scripted model which row it is asked about."""
        return f"What colour is the {self.options[0]} thing? [row {self.number}]"

    def says(self, request: int) -> str:
        """Returns the answer to a request, numbered from 0."""
        return self.texts[min(request, len(self.texts) - 1)]


def rows(protocol: str, count: int = 500) -> list[ScriptedRow]:
    """Returns the rows for a protocol; the same for each call."""
    return [_row(protocol, number) for number in range(count)]


def _row(protocol: str, number: int) -> ScriptedRow:
    rng = random.Random(f"{protocol} {number}")
    large = number % 50 == 7 and protocol not in CODES
    width, height = (rng.randint(1200, 1700), rng.randint(1100, 1500)) if large else _sides(rng)
    if protocol in CODES:
        width, height = width + 120, height + 120
    options = tuple(rng.sample(["red", "blue", "tan {x}", "grün", "off-white", 'a "B" c'], rng.randint(2, 4)))
    if protocol in CODES:
        texts = {"deepeyesv2": _deepeyesv2, "thyme": _thyme}[protocol](rng, number)
        return ScriptedRow(number, _image(rng, width, height, ("RGB", "RGB", "L")), options, tuple(texts))
    script = {"deepeyes": _deepeyes, "qwen": _qwen}[protocol]
    return ScriptedRow(number, _image(rng, width, height), options, tuple(script(rng, width, height)))


def _sides(rng: random.Random) -> tuple[int, int]:
    return rng.randint(20, 420), rng.randint(20, 420)


def _image(
    rng: random.Random,
    width: int,
    height: int,
    modes: Sequence[str] = ("RGB", "RGB", "RGB", "RGB", "L", "RGBA", "P"),
) -> bytes:
    """Returns a PNG with some shapes: its pixels do not depend on a decoder."""
    mode = rng.choice(modes)
    image = Image.new("RGB", (width, height), tuple(rng.randbytes(3)))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = rng.randint(0, width), rng.randint(0, height)
        draw.rectangle((x, y, x + width // 4, y + height // 5), fill=tuple(rng.randbytes(3)))
    buffer = io.BytesIO()
    (image.quantize(16) if mode == "P" else image.convert(mode)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _box(rng: random.Random, width: float, height: float) -> list[Any]:
    """Returns a box: mostly inside, sometimes outside, tiny, empty, turned round, or of halves."""
    kind = rng.random()
    left, top = rng.uniform(0, width * 0.8), rng.uniform(0, height * 0.8)
    right, bottom = rng.uniform(left + 1, width), rng.uniform(top + 1, height)
    if kind < 0.1:
        right, bottom = right + width, bottom + height / 2
    elif kind < 0.15:
        left, top = left - width, top - height
    elif kind < 0.2:
        right, bottom = left + rng.uniform(0, 8), top + rng.uniform(0, 8)
    elif kind < 0.23:
        left, right = right, left
    elif kind < 0.25:
        right = left
    box: list[Any] = [left, top, right, bottom]
    return [round(number, 1) for number in box] if rng.random() < 0.25 else [int(number) for number in box]


def _bad_box(rng: random.Random) -> Any:
    return rng.choice(
        [[1, 2, 3], [1, 2, 3, 4, 5], "1, 2, 3, 4", None, {"x": 1}, ["1", "2", "30", "40"], [[1, 2], 3, 4, 5]]
    )


def _deepeyes(rng: random.Random, width: int, height: int) -> Iterable[str]:
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 5, 12])):
        box = _box(rng, width, height)
        arguments = json.dumps({"bbox_2d": box, "label": 'a "thing" {0}'})
        call = f'{{"name": "image_zoom_in_tool", "arguments": {arguments}}}'
        match rng.randrange(14):
            case 0:
                call = f"{{'name': 'other', 'arguments': {{'bbox_2d': {tuple(box)}, }}}}  "
            case 1:
                call = call[: rng.randrange(len(call))]
            case 2:
                call = json.dumps({"name": "image_zoom_in_tool", "arguments": {"bbox_2d": _bad_box(rng)}})
            case 3:
                box = json.dumps({"bbox_2d": [1, 2, 30, 40]})
                call = rng.choice(
                    [box, "[]", "3", '{"arguments": 3}', '{"name": "x"}', '{"arguments": {"bbox": [1, 2, 3, 4]}}']
                )
            case 4:
                yield "Let me think about it." if rng.random() < 0.7 else ""
                continue
            case 5:
                call = f"{call}</tool_call> and <tool_call>{call}"
            case 6:
                yield f"<tool_call>{call}"
                continue
        yield f"<think>I look at {box}.</think>\n<tool_call>{call}</tool_call>{rng.choice(['', ' ', ' So.'])}"
    letter = rng.choice(LETTERS)
    yield rng.choice(
        [
            f"<think>It is clear.</think> <answer>{letter}</answer>",
            f"<answer> {letter}. red\n</answer> <answer>B</answer>",
            f"{letter}</answer>",
            f"</answer> <answer>{letter}",
            "<answer></answer>",
            f"<answer>{letter}</answer> <tool_call>{{'arguments': {{'bbox_2d': [1, 1, 15, 15]}}}}</tool_call>",
            "I cannot see it.",
        ]
    )


def _qwen(rng: random.Random, width: int, height: int) -> Iterable[str]:
    for turn in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 5, 21])):
        calls = [_qwen_call(rng, turn) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        before = rng.choice(["", "Let me look.\n", "I look.", "<think>I look <tool_call> x</think>\n\n", "  \n"])
        between = rng.choice(["", "\n", " and "])
        yield before + between.join(calls) + rng.choice(["", "\n", " lost"])
    yield rng.choice(["The answer is A.", "<think>It is clear.</think>\n\nB", "C", "<think>I never end <tool_call>{}"])


def _qwen_call(rng: random.Random, turn: int) -> str:
    box = _box(rng, 1000, 1000)
    arguments: dict[str, Any] = {"bbox_2d": box, "label": "Größe", "img_idx": rng.choice([0, 0, 0, turn, -1])}
    name = "image_zoom_in_tool"
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=rng.random() < 0.5)
    match rng.randrange(16):
        case 0:
            text = f"{{name: '{name}', arguments: {{bbox_2d: {box}, label: 'it\\'s', img_idx: +0, }}, }} // so"
        case 1:
            text = text[: rng.randrange(len(text))]
        case 2:
            text = json.dumps({"name": name, "arguments": arguments | {"bbox_2d": _bad_box(rng)}})
        case 3:
            text = rng.choice(["[]", "{}", '{"name": "x"}', '{"arguments": {}}', '"text"', ""])
        case 4:
            text = json.dumps({"name": "crop", "arguments": arguments})
        case 5:
            del arguments[rng.choice(list(arguments))]
            text = json.dumps({"name": name, "arguments": arguments})
        case 6:
            text = json.dumps({"name": name, "arguments": arguments | {"img_idx": rng.choice([7, 0.5, "0", None])}})
        case 7:
            text = json.dumps({"name": name, "arguments": rng.choice([json.dumps(arguments), [], 3])})
        case 8:
            return f"<tool_call>\n{text}"
    return f"<tool_call>{rng.choice(['', chr(10)])}{text}{rng.choice(['', chr(10)])}</tool_call>"


def _code(rng: random.Random, number: int, call: int) -> str:
    return f"# row {number} call {call}\nx = {rng.randint(0, 9)}\n" + rng.choice(["", "print('```x')\n", "y = 'é'\n"])


def _deepeyesv2(rng: random.Random, number: int) -> Iterable[str]:
    for call in range(rng.choice([0, 1, 1, 2, 2, 3, 5, 12])):
        code = _code(rng, number, call)
        match rng.randrange(9):
            case 0:
                yield rng.choice(["Let me think about it.", "<think>No mark.</think>", "\n"])
                continue
            case 1:
                text = code
            case 2:
                text = f"\n```python\n{code}"
            case 3:
                text = f"\nfirst:\n```python\n{code}```\n```python\nz = 3\n```"
            case 4:
                text = f"{code}</code> and <code>{code}"
            case _:
                text = f"\n```python\n{code}```\n"
        yield (
            rng.choice(["", " ", "<think>I look.</think>\n"])
            + f"<code>{text}"
            + rng.choice(["", "", "</code>", "</code> So."])
        )
    letter = rng.choice(LETTERS)
    yield rng.choice(
        [
            f"<think>It is clear.</think> <answer>{letter}</answer>",
            f"<answer> {letter}. red\n</answer> <answer>B</answer>\n",
            f"<answer>{letter}",
            f"</answer> <answer>{letter} <answer>C</answer>",
        ]
    )


def _thyme(rng: random.Random, number: int) -> Iterable[str]:
    for call in range(rng.choice([0, 1, 1, 2, 2, 3, 4])):
        code = _code(rng, number, call)
        fence = rng.choice(["", "```python\n", "```\n", "python\n", "\n```\n"])
        tags = (
            rng.choice(["<code>", "<code>", "<CODE>", "<code>\n"]),
            rng.choice(["</code>", "```</code>", "\n```\n</code>"]),
        )
        yield f"<think>I look.{tags[0]}{fence}{code}{tags[1]}"
    letter = rng.choice(LETTERS)
    yield rng.choice([f"</think><answer>{letter}</answer>", f"So. <answer> {letter}. red\n</answer>"])


def shown(number: int, call: int) -> tuple[str, str, list[bytes]]:
    """Returns what the code of a row's call shows: its words, its error or "", and its images."""
    rng = random.Random(f"shown {number} {call}")
    error = rng.choice(["", "", "", "NameError: name 'y' is not defined\n"])
    output = rng.choice(["", "(3, 4)\n", "é {stdout}\n", "7"])
    images = (
        [] if error else [_image(rng, *_sides(rng), ("RGB", "RGB", "RGBA")) for _ in range(rng.choice([0, 0, 1, 2]))]
    )
    if images and rng.random() < 0.2:
        buffer = io.BytesIO()
        Image.new("RGB", (90, 60), (255, 252, 250)).save(buffer, "PNG")
        images[0] = buffer.getvalue()
    return output, error, images


def mark(data: bytes) -> str:
    """Returns size, mode and a hash of an image's pixels."""
    with Image.open(io.BytesIO(data)) as image:
        digest = hashlib.sha256(image.tobytes()).hexdigest()[:16]
        return f"<{image.width}x{image.height} {image.mode} {digest}>"


def joined(pieces: Iterable[tuple[str, str]]) -> list[str]:
    """Returns texts and images' marks of a message, neighbouring texts as one: a chat template joins them.

    Args:
        pieces: The kind of each, "text" or "image", with its content.
    """
    matches: list[tuple[str, str]] = []
    for kind, content in pieces:
        if kind == "text" and matches and matches[-1][0] == "text":
            matches[-1] = kind, matches[-1][1] + content
        elif content:
            matches.append((kind, content))
    return [content for _, content in matches]


def added(requests: Sequence[Sequence[Any]]) -> list[Any]:
    """Returns the messages that each request has beyond those of the request before, which must begin it."""
    values: list[Any] = []
    for number, request in enumerate(requests):
        before = list(requests[number - 1]) if number else []
        assert list(request[: len(before)]) == before, "a request changes what was said before"
        values.append(list(request[len(before) :]))
    return values
