"""Images in prompts: which bytes are read, in which order, and which are refused."""

from __future__ import annotations

import grpc

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import check
from orchestrator.conformance.pictures import broken, huge, picture
from orchestrator.conformance.server import Server, text_of, user
from orchestrator.conformance.verdicts import Broken, NotApplicable, applies, wants

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_QUESTION = "What colour is the disc in the first image?"


@check
async def image_bytes_decide(server: Server) -> None:
    """PNG and JPEG files under a right, a wrong and no media type."""
    for form in ("PNG", "JPEG"):
        for claimed in ("image/png", "image/jpeg", ""):
            image = model.Image(data=picture("red", form), media_type=claimed)
            parts = [model.Part(image=image), model.Part(text=_QUESTION)]
            await server.send(server.request(model.Message(role=model.ROLE_USER, parts=parts)))


@check
async def refuses_corrupt_images(server: Server) -> None:
    """No image, a text, and files cut in half."""
    for what, data in broken().items():
        await server.refused(server.request(user(data, _QUESTION)), _INVALID, what=what)
    await server.alive("corrupt images")


@check
async def refuses_huge_images(server: Server) -> None:
    """A file of 100 KB that is 900 million pixels once decoded."""
    await server.refused(server.request(user(huge(), _QUESTION)), _INVALID, what="an image of 900 million pixels")
    await server.alive("a huge image")


@check
async def several_images_are_seen(server: Server) -> str:
    """A second image costs tokens, or changes the answer."""
    none = await _spent(server, _QUESTION)
    one = await _spent(server, picture("red"), _QUESTION)
    two = await _spent(server, picture("red"), picture("blue"), _QUESTION)
    if one > none:
        wants(two > one, f"one image makes the prompt {one} tokens, two make it {two}: the second was dropped")
        return f"{none}, {one} and {two} prompt tokens with no, one and two images"
    seen = [await _look(server, ("red", *rest)) for rest in ((), ("blue",), ("green",))]
    applies(len(set(seen)) > 1, "images change neither the prompt's tokens nor the answer: nothing can be seen")
    return "the second image changes the answer"


@check
async def image_order_is_kept(server: Server) -> str:
    """Two images change places, and the answer with them, if images count at all."""
    pairs = [("red", "blue"), ("green", "black"), ("yellow", "purple")]
    looks = [(await _look(server, pair), await _look(server, pair[::-1])) for pair in pairs]
    if any(there != back for there, back in looks):
        return "the answer changes with the order"
    alike = {await _look(server, (first, first)) for first, _ in pairs}
    if len(alike) == 1:
        raise NotApplicable("the answer does not depend on the images")
    raise Broken("the answer depends on the images and is the same in either order")


async def _spent(server: Server, *parts: str | bytes) -> int:
    return int((await server.send(server.request(user(*parts)))).usage.input_tokens)


async def _look(server: Server, colours: tuple[str, ...]) -> str:
    """What the server makes of these images, to the last digit where it scores."""
    parts: list[str | bytes] = [*(picture(colour) for colour in colours), _QUESTION]
    if server.claims("LIKELIHOOD"):
        scores = await server.likelihood(parts, ["red", "blue"])
        return " ".join(f"{score.logprob:.6g}" for score in scores)
    return text_of(await server.generate(*parts))
