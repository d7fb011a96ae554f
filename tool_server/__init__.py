"""Serves tools that models call, by lyncean.tool.v1: `tool-server serve FILE.py`. Names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from tool_server.cli.options import tool_options as tool_options
    from tool_server.folders import own_folder as own_folder
    from tool_server.serve import run as run
    from tool_server.settings import Limits as Limits
    from tool_server.types import Output as Output

__getattr__ = face(
    __name__,
    {
        "cli.options": "tool_options",
        "folders": "own_folder",
        "serve": "run",
        "settings": "Limits",
        "types": "Output",
    },
)
