"""Trajectories without a run: the engine's steps, a protocol with its tools, and a scripted model."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from PIL import Image

from lyncean.model.v1.model_pb2 import GetModelInfoResponse
from orchestrator.engine.trajectory import Ask, Play, Trajectory
from orchestrator.samples import Answer, Call
from orchestrator.tools.toolbox import Toolbox
from orchestrator.tools.types import Picture, RemoteCall, ToolOutput


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


def play(
    box: Toolbox,
    call: Call,
    model: Callable[[Call], Answer],
    remote: Callable[[RemoteCall, Sequence[Picture]], ToolOutput] | None = None,
) -> Played:
    """Plays a trajectory to its end by the engine's own steps; `remote` is the servers of tools."""
    played = Played()
    trajectory = Trajectory(Play(box, box.protocol.max_calls, ("zoom",)), call, "t/0", lambda image: image)
    info = GetModelInfoResponse()
    while isinstance(step := trajectory.step(info), Ask):
        played.requests.append(step.call)
        trajectory.add_answer(model(step.call))
        for pending in trajectory.left:
            output = trajectory.run(pending)
            if isinstance(output, RemoteCall):
                assert remote is not None
                output = replace(remote(output, tuple(trajectory.pictures)), remote=output)
            played.outputs.append(output)
            trajectory.add_output(output)
    played.final = step.answer.text if step.answer else ""
    return played
