"""`tool-server sandbox`: a model's Python code, closed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lyncean.cli import Command
from lyncean.cli.options import POSITIVE_SECONDS
from tool_server.cli.options import tool_options
from tool_server.sandbox.limits import Limits as CodeLimits

if TYPE_CHECKING:
    from lyncean.rpc import ServerConfig
    from tool_server.settings import Limits

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_DEFAULT = CodeLimits()


def _option(flag: str, kind: click.ParamType[Any], default: float, help_text: str) -> Callable[[Decorated], Decorated]:
    return click.option(flag, type=kind, default=default, show_default=True, help=help_text)


@click.command("sandbox", cls=Command)
@_option("--seconds", POSITIVE_SECONDS, _DEFAULT.seconds, "Processor time of one call.")
@_option("--wall-seconds", POSITIVE_SECONDS, _DEFAULT.wall, "Time of one call by the clock: code may wait.")
@_option(
    "--memory",
    click.IntRange(16, 1 << 20),
    _DEFAULT.memory >> 20,
    "MiB that a session may take beyond the libraries; all sessions together take --max-sessions times that at most.",
)
@_option("--max-characters", click.IntRange(1, 250_000), _DEFAULT.characters, "Characters of text in a result.")
@_option("--max-images", click.IntRange(0, 30), _DEFAULT.images, "Images in a result.")
@_option("--max-pixels", click.IntRange(1, 1 << 26), _DEFAULT.pixels, "Pixels of an image in a result.")
@tool_options
def command(
    seconds: float,
    wall_seconds: float,
    memory: int,
    max_characters: int,
    max_images: int,
    max_pixels: int,
    config: ServerConfig,
    limits: Limits,
) -> None:
    """Serve the tool `python`, which runs code as a notebook does.

    Each conversation has a process of its own, whose variables are kept between calls. A session that is lost is made
    anew from its history: seeds, hashes and clock are held, so that the same code gives the same result.

    A run uses it by `orchestrator eval --tools grpc:HOST:PORT`, in any task whose answers are in words.

    The code is closed in by the kernel: it reads the interpreter's files and its own folder, and has no network, no
    other process, no thread, no environment. Where Landlock, seccomp or limits do not hold, the server does not start.
    Give the container a read-only root, no network, no secret, and a /tmp of 64 MiB for each session.
    """
    from tool_server.sandbox.toolset import Sandbox
    from tool_server.serve import run

    bounds = CodeLimits(
        seconds=seconds,
        wall=wall_seconds,
        memory=memory << 20,
        characters=max_characters,
        images=max_images,
        pixels=max_pixels,
    )
    sandbox = Sandbox(bounds)

    def checked() -> Sandbox:
        sandbox.check()
        return sandbox

    run(checked, config, limits, sandbox.close)
