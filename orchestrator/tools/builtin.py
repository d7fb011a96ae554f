"""Image tools for models that call tools by the contract: zoom, resize, rotate, flip, boxes, points, grid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyncean.media.picture_formats import orientation
from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import text_part
from orchestrator.tools.arguments import check_schema, read_literal, tool_error
from orchestrator.tools.pixels import MISTAKES, Box, CropPolicy, cut, decoded, encoded
from orchestrator.tools.types import Picture, ToolOutput

if TYPE_CHECKING:
    from PIL import Image

MAX_MARKS = 64
"""Boxes or points of one call."""
_SCALE = 1000
_ZOOM = CropPolicy("per_mille", "clamped", "area", min_pixels=512 * 512, max_pixels=4096 * 4096, filter="bicubic")
_COLOURS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#42d4f4", "#f032e6", "#bfef45")
_IMAGE = {
    "type": "integer",
    "minimum": 1,
    "description": "Number of the image, from 1, in the order of the conversation; images from tools count.",
}
_NUMBER = {"type": "number", "minimum": 0, "maximum": _SCALE}
_BOX = {
    "type": "array",
    "items": _NUMBER,
    "minItems": 4,
    "maxItems": 4,
    "description": "[left, top, right, bottom], each from 0 to 1000: thousandths of the image's width or height.",
}
_POINT = {
    "type": "array",
    "items": _NUMBER,
    "minItems": 2,
    "maxItems": 2,
    "description": "[x, y], each from 0 to 1000.",
}
_Made = tuple["Image.Image", Box | None]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A tool that makes an image of one of the images so far; see `orchestrator.tools.types.Tool`.

    Attributes:
        name: The tool's name.
        description: Its description for the model.
        properties: JSON Schema of each argument beside `image`.
        make: Returns the new image, and its box in the old one if it is a crop.
        optional: Arguments that may be left out.
    """

    name: str
    description: str
    properties: Mapping[str, Any]
    make: Callable[[Image.Image, Mapping[str, Any]], _Made]
    optional: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        properties = {"image": _IMAGE, **self.properties}
        required = [name for name in properties if name not in self.optional]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def describe(self) -> model.Tool:
        """Returns name, description and schema."""
        return model.Tool(name=self.name, description=self.description, input_schema=json.dumps(self.schema))

    def call(self, arguments: str, pictures: Sequence[Picture]) -> ToolOutput:
        """Returns the new image with its number, or the defect of the call."""
        try:
            options = read_literal(arguments, "json")
            check_schema(options, self.schema)
        except ValueError as error:
            return tool_error("The arguments of {name} cannot be used: {error}", name=self.name, error=_line(error))
        number = options["image"] - 1
        if number >= len(pictures):
            return tool_error(
                "There is no image {image}: the last one is {last}.", image=str(number + 1), last=str(len(pictures))
            )
        try:
            image = _upright(decoded(pictures[number].data))
            changed, box = self.make(image, options)
            data = encoded(changed)
        except MISTAKES as error:
            return tool_error("{name} failed: {error}", name=self.name, error=_line(error))
        title = f"Image {len(pictures) + 1}, {changed.width} x {changed.height} pixels:"
        return ToolOutput((text_part(title), Picture(data, source=number, box=box, source_size=image.size)))


def _line(error: Exception) -> str:
    """Returns an error's first line: jsonschema appends the schema."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _upright(image: Image.Image) -> Image.Image:
    """Returns an image as servers show it: turned as EXIF says, in a mode that PNG has."""
    from PIL import ImageOps

    if image.format != "TIFF" and orientation(image):  # pillow has turned a TIFF
        image = ImageOps.exif_transpose(image)
    return image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGB")


def _zoom(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    left, top, right, bottom = options["box"]
    if left >= right or top >= bottom:
        raise ValueError("the box is empty: left must be below right, and top below bottom")
    changed, box = cut(image, (left, top, right, bottom), _ZOOM)
    if not (changed.width and changed.height):
        raise ValueError("the box holds no whole pixel")
    return changed, box


def _resize(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    return image.resize((options["width"], options["height"])), None


def _rotate(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    from PIL import Image

    return image.rotate(-options["degrees"], resample=Image.Resampling.BICUBIC, expand=True), None


def _flip(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    from PIL import Image

    horizontal = options["direction"] == "horizontal"
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT if horizontal else Image.Transpose.FLIP_TOP_BOTTOM), None


def _draw_boxes(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    changed, stroke = image.convert("RGB"), _stroke(image)
    draw = _draw(changed)
    for number, box in enumerate(options["boxes"]):
        left, right = sorted(_at(x, image.width) for x in box[::2])
        top, bottom = sorted(_at(y, image.height) for y in box[1::2])
        colour = _COLOURS[number % len(_COLOURS)]
        draw.rectangle((left, top, right, bottom), outline=colour, width=stroke)
        draw.text((left + stroke + 1, top + stroke), str(number + 1), fill=colour, font_size=6 * stroke + 6)
    return changed, None


def _draw_points(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    changed, radius = image.convert("RGB"), 2 * _stroke(image)
    draw = _draw(changed)
    for number, point in enumerate(options["points"]):
        x, y = _at(point[0], image.width), _at(point[1], image.height)
        colour = _COLOURS[number % len(_COLOURS)]
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        draw.text((x + radius + 1, y - radius), str(number + 1), fill=colour, font_size=3 * radius + 6)
    return changed, None


def _grid(image: Image.Image, options: Mapping[str, Any]) -> _Made:
    changed, stroke = image.convert("RGB"), _stroke(image)
    draw, rows, columns = _draw(changed), options["rows"], options["columns"]
    for column in range(1, columns):
        x = column * image.width // columns
        draw.line((x, 0, x, image.height), fill=_COLOURS[0], width=stroke)
    for row in range(1, rows):
        y = row * image.height // rows
        draw.line((0, y, image.width, y), fill=_COLOURS[0], width=stroke)
    for number in range(rows * columns):
        row, column = divmod(number, columns)
        corner = column * image.width // columns + stroke + 1, row * image.height // rows + stroke
        draw.text(corner, str(number + 1), fill=_COLOURS[0], font_size=6 * stroke + 6)
    return changed, None


def _draw(image: Image.Image) -> Any:
    from PIL import ImageDraw

    return ImageDraw.Draw(image)


def _stroke(image: Image.Image) -> int:
    return max(1, round(min(image.size) / 250))


def _at(number: float, side: int) -> int:
    return round(number / _SCALE * (side - 1))


_SIDE = {"type": "integer", "minimum": 1, "maximum": 4096, "description": "Pixels."}
_CELLS = {"type": "integer", "minimum": 1, "maximum": 16}
TOOLS = {
    tool.name: tool
    for tool in (
        BuiltIn("zoom", "Cut a box out of an image and enlarge it, to see small details.", {"box": _BOX}, _zoom),
        BuiltIn("resize", "Scale an image to a width and a height.", {"width": _SIDE, "height": _SIDE}, _resize),
        BuiltIn(
            "rotate",
            "Turn an image clockwise.",
            {"degrees": {"type": "number", "minimum": -360, "maximum": 360}},
            _rotate,
        ),
        BuiltIn("flip", "Mirror an image.", {"direction": {"enum": ["horizontal", "vertical"]}}, _flip),
        BuiltIn(
            "draw_boxes",
            "Draw numbered boxes on an image.",
            {"boxes": {"type": "array", "items": _BOX, "minItems": 1, "maxItems": MAX_MARKS}},
            _draw_boxes,
        ),
        BuiltIn(
            "draw_points",
            "Draw numbered points on an image.",
            {"points": {"type": "array", "items": _POINT, "minItems": 1, "maxItems": MAX_MARKS}},
            _draw_points,
        ),
        BuiltIn(
            "grid",
            "Divide an image into numbered cells, row by row.",
            {"rows": _CELLS, "columns": _CELLS},
            _grid,
        ),
    )
}
"""The built-in tools by name."""
