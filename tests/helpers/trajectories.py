"""Trajectories without an engine: a protocol, its tools and a scripted model."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from PIL import Image

from orchestrator.samples import Answer, Call, Message, Part, ToolResult, image_part
from orchestrator.tools.toolbox import Toolbox, pictures_of
from orchestrator.tools.types import Picture, ToolOutput


def png(width: int, height: int, colour: tuple[int, ...] = (200, 30, 90), mode: str = "RGB") -> bytes:
    """Returns an image file of one colour with a darker left upper quarter."""
    image = Image.new(mode, (width, height), colour if mode == "RGB" else colour[0])
    image.paste(0 if mode != "RGB" else (9, 9, 9), (0, 0, width // 2, height // 2))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@dataclass
class Played:
    """A trajectory: the requests as they were sent, what the tools gave back, and the answer that is judged."""

    requests: list[Call] = field(default_factory=list)
    outputs: list[ToolOutput] = field(default_factory=list)
    final: str = ""


def play(box: Toolbox, call: Call, model: Callable[[Call], Answer]) -> Played:
    """Plays a trajectory to its end as the engine does."""
    played, pictures, request = Played(), list(pictures_of(call)), box.protocol.first(call, box.tools)
    turn = 0
    while True:
        played.requests.append(request)
        answer = model(request)
        turn += 1
        calls = box.protocol.read(answer)
        if not calls and not box.protocol.again(answer):
            break
        if turn == box.protocol.max_calls:
            if not box.protocol.judged_at_limit:
                return played
            break
        results = []
        for each in calls:
            output = box.protocol.call(each, box.tools, pictures)
            played.outputs.append(output)
            results.append(ToolResult(each.id, tuple(_parts(output)), output.is_error))
            pictures += [piece for piece in output.content if isinstance(piece, Picture)]
        if calls:
            added: tuple[Message, ...] = box.protocol.next(answer, results, turn - 1)
            if not added:
                break
            request = Call((*request.messages, *added), request.config, tools=request.tools)
    played.final = box.protocol.final(answer).text
    return played


def _parts(output: ToolOutput) -> Iterator[Part]:
    for piece in output.content:
        yield image_part(piece.data) if isinstance(piece, Picture) else piece
