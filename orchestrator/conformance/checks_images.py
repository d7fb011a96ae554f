"""Images in prompts: which bytes are read, in which order, and which are refused."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache

from PIL import Image, ImageDraw

from orchestrator.conformance.check import Broken, NotApplicable, applies, check, wants
from orchestrator.conformance.server import Server, text_of, user

_QUESTION = "What colour is the disc in the first image?"
_HUGE_SIDE = 30_000


@check
async def image_bytes_decide(server: Server) -> None:
    """PNG and JPEG files under a right, a wrong and no media type."""
    for form in ("PNG", "JPEG"):
        for claimed in ("image/png", "image/jpeg", ""):
            message = user(picture("red", form), _QUESTION)
            message.parts[0].image.media_type = claimed
            await server.send(server.request(message))


@check
async def refuses_corrupt_images(server: Server) -> None:
    """No image, a text, and files cut in half."""
    png, jpeg = picture("red"), picture("red", "JPEG")
    corrupt = {
        "no bytes at all": b"",
        "text in place of an image": b"this is not an image " * 20,
        "a PNG file cut in half": png[: len(png) // 2],
        "a JPEG file cut in half": jpeg[: len(jpeg) // 2],
    }
    for case, data in corrupt.items():
        await server.refused(server.request(user(data, _QUESTION)), what=case)
    await server.alive("corrupt images")


@check
async def refuses_huge_images(server: Server) -> None:
    """A file of 100 KB that is 900 million pixels once decoded."""
    await server.refused(server.request(user(_huge(), _QUESTION)), what="an image of 900 million pixels")
    await server.alive("a huge image")


@check
async def several_images_are_seen(server: Server) -> str:
    """A second image costs tokens, or changes the answer."""
    prompts = [user(*map(picture, colours), _QUESTION) for colours in ([], ["red"], ["red", "blue"])]
    none, one, two = [(await server.send(server.request(prompt))).usage.input_tokens for prompt in prompts]
    if one > none:
        wants(two > one, f"one image makes the prompt {one} tokens, two make it {two}: the second was dropped")
        return f"{none}, {one} and {two} prompt tokens with no, one and two images"
    answers = {await _answer(server, *colours) for colours in (["red"], ["red", "blue"], ["red", "green"])}
    applies(len(answers) > 1, "images change neither the prompt's tokens nor the answer: nothing can be seen")
    return "the second image changes the answer"


@check
async def image_order_is_kept(server: Server) -> str:
    """Two images change places, and the answer with them, if images count at all."""
    pairs = [("red", "blue"), ("green", "black"), ("yellow", "purple")]
    if any([await _answer(server, *pair) != await _answer(server, *pair[::-1]) for pair in pairs]):
        return "the answer changes with the order"
    if len({await _answer(server, first, first) for first, _ in pairs}) == 1:
        raise NotApplicable("the answer does not depend on the images")
    raise Broken("the answer depends on the images and is the same in either order")


async def _answer(server: Server, *colours: str) -> str:
    """The answer about some images; the scores to the last digit where there are scores."""
    parts: list[str | bytes] = [*map(picture, colours), _QUESTION]
    if server.claims("LIKELIHOOD"):
        scores = await server.likelihood(parts, ["red", "blue"])
        return " ".join(f"{score.logprob:.6g}" for score in scores)
    return text_of(await server.generate(*parts))


@cache
def picture(colour: str, form: str = "PNG") -> bytes:
    """Returns a 96 x 64 image with a disc of a colour on white."""
    image = Image.new("RGB", (96, 64), "white")
    ImageDraw.Draw(image).ellipse((24, 8, 72, 56), fill=colour)
    return _encoded(image, form)


@cache
def plain(colour: str, width: int, height: int) -> bytes:
    """Returns a PNG file of one colour."""
    return _encoded(Image.new("RGB", (width, height), colour), "PNG")


def _encoded(image: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


@cache
def _huge() -> bytes:
    """A valid PNG of 900 million pixels in about 100 KB."""
    packer = zlib.compressobj(1)
    row = bytes(1 + (_HUGE_SIDE + 7) // 8)
    data = b"".join(packer.compress(row * 500) for _ in range(_HUGE_SIDE // 500)) + packer.flush()
    header = struct.pack(">IIBBBBB", _HUGE_SIDE, _HUGE_SIDE, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    packed = (struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)
