"""The tool of the text protocols: a box of an image, cut out and scaled as the protocol says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.facts import OTHER_SIZE
from orchestrator.tools.arguments import check_schema, read_literal, tool_error
from orchestrator.tools.pixels import MISTAKES, Box, cut, decoded, encoded, sized
from orchestrator.tools.spec import Spec
from orchestrator.tools.types import Picture, ToolOutput

if TYPE_CHECKING:
    from PIL import Image

_ROUNDING = 0.05
"""Share of a side by which a server's multiples of a patch may differ from the image."""


@dataclass(frozen=True)
class Zoom:
    """The zoom of one text protocol; see `orchestrator.tools.types.Tool`."""

    spec: Spec

    @cached_property
    def _function(self) -> dict[str, Any]:
        function: dict[str, Any] = json.loads(self.spec.tool.line)["function"]
        return function

    def describe(self) -> model.Tool:
        """Returns the tool as the system prompt describes it."""
        schema = json.dumps(self._function["parameters"], ensure_ascii=False)
        return model.Tool(name=self._function["name"], description=self._function["description"], input_schema=schema)

    def call(self, arguments: str, pictures: Sequence[Picture]) -> ToolOutput:
        """Returns the crop, or the protocol's error where arguments, image or box cannot be used."""
        cause = "unreadable"
        try:
            values = read_literal(arguments, self.spec.tool.syntax)
            cause = "arguments"
            if self.spec.tool.validates:
                check_schema(values, self._function["parameters"])
            index = self._index(values)
            cause = "box"
            numbers = self._numbers(values)
            cause = "index"
            position = self._place(index, pictures)
            image = self._cut_from(pictures[position])
            cause = "crop"
            crop, box = cut(image, numbers, self.spec.crop)
            data = encoded(crop)
        except MISTAKES as error:
            return self._error(cause, error, len(pictures))
        facts = {OTHER_SIZE: 1.0} if self._in_pixels(numbers) and _differs(pictures[position].shown, image.size) else {}
        return ToolOutput((Picture(data, source=position, box=box, source_size=image.size),), facts=facts)

    def _in_pixels(self, numbers: Box) -> bool:
        """Returns true if the box is in pixels of the image that is cut, as the protocol's reference takes it."""
        units = self.spec.crop.units
        return units == "pixels" or (units == "fraction_or_pixels" and not all(number < 1 for number in numbers))

    def _cut_from(self, picture: Picture) -> Image.Image:
        image, form = decoded(picture.data), self.spec.images
        return (
            sized(image.convert("RGB"), form.policy) if form.cut and form.policy and picture.source is None else image
        )

    def _numbers(self, values: Any) -> Box:
        left, top, right, bottom = values[self.spec.tool.box]
        return left, top, right, bottom

    def _index(self, values: Any) -> Any:
        return values[self.spec.tool.index] if self.spec.tool.index else None

    def _place(self, index: Any, pictures: Sequence[Picture]) -> int:
        """Returns the position of the image that an argument names.

        Raises:
            Exception: One of `MISTAKES`: the image does not exist. As in a Python list, -1 is the last one.
        """
        form = self.spec.tool
        if not form.index:
            position = 0
        elif form.named:
            originals = sum(picture.source is None for picture in pictures)
            position = self._named(index, originals, *form.named)
        else:
            position = index - form.first_index
        return range(len(pictures))[position]

    def _named(self, name: Any, originals: int, first: str, others: str) -> int:
        if name == first:
            return 0
        if not isinstance(name, str) or not (number := re.match(rf"{others}([0-9]{{1,9}})", name)):
            raise ValueError(
                f"The '{self.spec.tool.index}' argument \"{name}\" does not match the pattern '{others}([0-9]*)'."
            )
        return originals - 1 + int(number[1]) if int(number[1]) else 0

    def _error(self, cause: str, error: Exception, count: int) -> ToolOutput:
        template = self.spec.tool.errors.get(cause, "{error}")
        name = self._function["name"]
        return tool_error(template, name=name, type=type(error).__name__, error=str(error), count=str(count))


def _differs(shown: tuple[int, int] | None, size: tuple[int, int]) -> bool:
    """Returns true if an image was shown at another size than its own, by more than rounding."""
    return shown is not None and any(
        abs(seen - side) > _ROUNDING * side for seen, side in zip(shown, size, strict=True)
    )
