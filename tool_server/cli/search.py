"""`tool-server search MODEL`: visual search by an open-vocabulary detector."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from lyncean.cli import Command
from lyncean.cli.options import FiniteRange
from tool_server.cli.options import tool_options
from tool_server.search.hierarchy import Settings, Strategy

if TYPE_CHECKING:
    from lyncean.rpc import ServerConfig
    from tool_server.search.toolset import VisualSearch
    from tool_server.settings import Limits

_SHARE = FiniteRange(0, 1)


@click.command("search", cls=Command)
@click.argument("model", metavar="MODEL")
@click.option("--revision", help="Commit, branch or tag of a hub id.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, or auto (a GPU, else the CPU).")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Weights.",
)
@click.option(
    "--strategy",
    type=click.Choice(get_args(Strategy)),
    default="guided",
    show_default=True,
    help="Order of the patches: by the detector's weaker detections, or in a random or fixed order.",
)
@click.option(
    "--threshold", type=_SHARE, default=0.5, show_default=True, help="Confidence above which a detection ends a search."
)
@click.option(
    "--fallback",
    type=_SHARE,
    default=0.3,
    show_default=True,
    help="Confidence from which the best detection of all patches is the object.",
)
@tool_options
def command(
    model: str,
    revision: str | None,
    device: str,
    dtype: str,
    strategy: Strategy,
    threshold: float,
    fallback: float,
    config: ServerConfig,
    limits: Limits,
) -> None:
    """Serve the tool `search`, which finds an object in an image by its name.

    MODEL is a folder or hub id of a detector of transformers: OWLv2, Grounding DINO or another of their kind.
    """
    from tool_server.serve import run

    def make() -> VisualSearch:
        from tool_server.search.detector import TransformersDetector
        from tool_server.search.toolset import VisualSearch

        detector = TransformersDetector(model, revision, device, dtype)
        return VisualSearch(detector, Settings(strategy, threshold, fallback))

    run(make, config, limits)
