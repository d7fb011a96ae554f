"""The tool `search`: finds an object in an image by its name, and returns its boxes and crops."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from lyncean.media.picture_formats import DAMAGE
from lyncean.model.v1 import model_pb2 as model
from tool_server import pictures
from tool_server.search.detector import Detector
from tool_server.search.hierarchy import Box, Detection, Found, Patch, Settings, search
from tool_server.types import Output

if TYPE_CHECKING:
    from PIL import Image

NAME = "search"
DEFAULTS = Settings()
MAX_BOXES = 8
"""Maximum boxes returned for one object, the best first."""
MAX_PIXELS = 89_478_485
"""Maximum pixels of a decoded image; pillow warns above it."""
_SCALE = 1.2
"""Ratio of a crop's sides to those of its box, as in the paper's code."""
_CROP_SIDE = 1024
"""Maximum pixels of a side of a crop; larger crops are scaled down."""
_SCHEMA = {
    "type": "object",
    "properties": {
        "object": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "Name of the object, for example: yellow dog.",
        },
        "image": {
            "type": "integer",
            "minimum": 1,
            "default": 1,
            "description": "Number of the image, from 1, in the order of the conversation; images from tools count.",
        },
    },
    "required": ["object"],
    "additionalProperties": False,
}
_DESCRIPTION = (
    "Search an image for an object that is too small to be seen at once. Returns its boxes (left, top, right, bottom "
    "in pixels) and an enlarged crop of each; where it is not found, the best guess."
)


class VisualSearch:
    """The toolset; see `tool_server.types.Toolset`. It is its own session: no call depends on another.

    Args:
        detector: The detector.
        settings: Strategy and thresholds of a search.

    Attributes:
        revision: Hash of the detector, the settings and the code that searches.
        stateful: False.
    """

    stateful = False

    def __init__(self, detector: Detector, settings: Settings = DEFAULTS) -> None:
        self._detector, self._settings = detector, settings
        digest = hashlib.sha256(f"{detector.revision}\n{astuple(settings)}".encode())
        for file in sorted(Path(__file__).parent.glob("*.py")):
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        digest.update(pictures.code())
        self.revision = digest.hexdigest()

    def tools(self) -> Sequence[model.Tool]:
        """Returns the one tool."""
        return [model.Tool(name=NAME, description=_DESCRIPTION, input_schema=json.dumps(_SCHEMA))]

    def open(self) -> VisualSearch:
        """Returns a session."""
        return self

    def close(self) -> None:
        """Ends a session."""

    def call(self, name: str, arguments: str, images: Sequence[bytes]) -> Output:
        """Searches one image; returns a mistake of the model as an error output."""
        values = json.loads(arguments)
        target, number = str(values["object"]), int(values.get("image", 1))
        if number > len(images):
            return Output((f"There is no image {number}: the last one is {len(images)}.",), is_error=True)
        try:
            image = pictures.decoded(images[number - 1], MAX_PIXELS)
        except (*DAMAGE, MemoryError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            return Output((f"Image {number} cannot be read: {reason}",), is_error=True)
        seed = hashlib.sha256(f"{target}|{image.size}".encode()).digest()
        result = search(image.size, lambda patch: self._seen(image, patch, target), self._settings, seed)
        return _output(target, result, image)

    def _seen(self, image: Image.Image, patch: Patch, target: str) -> list[Detection]:
        """Returns the detections of a patch in pixels of the image."""
        x, y = patch[:2]
        seen = self._detector.detect(image if patch == (0, 0, *image.size) else image.crop(patch), target)
        return [Detection((b[0] + x, b[1] + y, b[2] + x, b[3] + y), score) for b, score in seen]


def _output(target: str, result: Found, image: Image.Image) -> Output:
    kept = result.detections[:MAX_BOXES]
    report = {
        "object": target,
        "found": result.found,
        "patches": result.patches,
        "boxes": [[round(at, 2) for at in one.box] for one in kept],
        "scores": [round(one.score, 4) for one in kept],
    }
    crops = [_encoded(image.crop(crop_box(one.box, image.size))) for one in kept]
    return Output((json.dumps(report), *crops), facts={"found": float(result.found), "patches": result.patches})


def crop_box(box: Box, size: tuple[int, int]) -> Patch:
    """Returns the part of an image that shows a box and its surroundings, as the paper's code crops it."""
    left, top, right, bottom = box
    width, height = (max(2, int(math.ceil(side) * _SCALE)) for side in (right - left, bottom - top))
    x = min(max(0, int((left + right) / 2) - width // 2), size[0] - 1)
    y = min(max(0, int((top + bottom) / 2) - height // 2), size[1] - 1)
    return x, y, min(x + width, size[0]), min(y + height, size[1])


def _encoded(image: Image.Image) -> bytes:
    image.thumbnail((_CROP_SIDE, _CROP_SIDE))
    return pictures.encoded(image)
