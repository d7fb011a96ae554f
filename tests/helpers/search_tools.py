"""Visual search that sees every object everywhere: `tool-server serve tests/helpers/search_tools.py`."""

from __future__ import annotations

from PIL import Image

from tool_server.search.hierarchy import Detection
from tool_server.search.toolset import VisualSearch


class Everywhere:
    revision = "1"

    def detect(self, image: Image.Image, name: str) -> list[Detection]:
        return [Detection((0.0, 0.0, float(image.width), float(image.height)), 0.9)]


toolset = VisualSearch(Everywhere())
