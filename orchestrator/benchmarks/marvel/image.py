"""The layout of a MARVEL image, the same in all 770: where panels, choices and indices stand.

Panels are 180 pixels wide and high. The context stands above, a row of four choices below it,
and the digits 1 to 4 alone beneath the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError

from lyncean.media.pictures import open_image
from orchestrator.data.images import encoded
from orchestrator.samples import BadRowError

PANEL = 180
FRAME = 6
"""A panel's frame is within so many pixels of its edges."""
CHOICE_TOP = {"Sequence": 320, "Two-row": 500, "Matrix": 680, "Group": 320, "3D": 365}
"""Configuration -> y of the upper edge of the choice row."""

CONTEXT_COLUMNS = {"Two-row": 3, "Matrix": 3}
"""Panels in a row of the context, where it has several rows."""

_CONTEXT_LEFT, _CONTEXT_TOP = 180, 90
_CUBE_NET = (315, 45, 585, 315)
_INDEX_TOP, _INDEX_BOTTOM = 190, 222
WHITE = 255


def choice_boxes(width: int, configuration: str) -> list[tuple[int, int, int, int]]:
    """Returns the four choices' boxes: left, upper, right, lower."""
    left, top = (width - 4 * PANEL) // 2, CHOICE_TOP[configuration]
    return [(left + i * PANEL, top, left + (i + 1) * PANEL, top + PANEL) for i in range(4)]


def context_boxes(configuration: str, panels: int) -> list[tuple[int, int, int, int]]:
    """Returns the boxes of the context's panels, the blank one last; 3D has one larger panel."""
    if configuration == "3D":
        return [_CUBE_NET]
    columns = CONTEXT_COLUMNS.get(configuration, panels)
    corners = [(_CONTEXT_LEFT + i % columns * PANEL, _CONTEXT_TOP + i // columns * PANEL) for i in range(panels)]
    return [(x, y, x + PANEL, y + PANEL) for x, y in corners]


def context_shown(configuration: str, panels: int) -> list[tuple[int, int, int, int]]:
    """Returns the boxes of the context's panels without the blank one."""
    boxes = context_boxes(configuration, panels)
    return boxes if configuration == "3D" else boxes[:-1]


def inner(box: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Returns a panel's box without its frame."""
    left, upper, right, lower = box
    return left + FRAME, upper + FRAME, right - FRAME, lower - FRAME


@lru_cache(maxsize=16)
def without_index(data: bytes, configuration: str) -> bytes:
    """Returns the image with everything below the choice row painted white, digits included.

    The last few are kept: three questions a puzzle are asked of it.
    """
    image = opened(data, configuration)
    image.paste(WHITE, (0, CHOICE_TOP[configuration] + _INDEX_TOP, image.width, image.height))
    return png(image)


def with_letters(data: bytes, configuration: str) -> bytes:
    """Returns the image with A to D in the place of 1 to 4."""
    image = opened(data, configuration)
    draw = ImageDraw.Draw(image)
    middle = CHOICE_TOP[configuration] + (_INDEX_TOP + _INDEX_BOTTOM) // 2
    image.paste(WHITE, (0, CHOICE_TOP[configuration] + _INDEX_TOP, image.width, image.height))
    for letter, (left, _, right, _) in zip("ABCD", choice_boxes(image.width, configuration), strict=True):
        draw.text(((left + right) // 2, middle), letter, fill=0, font=ImageFont.load_default(34), anchor="mm")
    return png(image)


def with_question_mark(data: bytes, configuration: str, panels: int) -> bytes:
    """Returns the image with a question mark in the context's blank panel; 3D has none and stays as it is."""
    if configuration == "3D":
        return data
    image = opened(data, configuration)
    left, upper, right, lower = context_boxes(configuration, panels)[-1]
    middle = (left + right) // 2, (upper + lower) // 2
    ImageDraw.Draw(image).text(middle, "?", fill=0, font=ImageFont.load_default(96), anchor="mm")
    return png(image)


def with_choices(data: bytes, configuration: str, order: Sequence[int]) -> bytes:
    """Returns the image with its choices in another order: place i shows what was choice `order[i]`, from 0.

    Frames stay where they are: those at the ends of the row are thicker and would tell.
    """
    image = opened(data, configuration)
    boxes = [inner(box) for box in choice_boxes(image.width, configuration)]
    panels = [image.crop(box) for box in boxes]
    for box, index in zip(boxes, order, strict=True):
        image.paste(panels[index], box)
    return png(image)


def cut(data: bytes, configuration: str, panels: int) -> tuple[list[bytes], list[bytes]]:
    """Returns the context's panels without the blank one, and the four choices, each as PNG."""
    image = opened(data, configuration)
    boxes = context_shown(configuration, panels), choice_boxes(image.width, configuration)
    context, choices = ([png(image.crop(box)) for box in part] for part in boxes)
    return context, choices


def opened(data: bytes, configuration: str) -> Image.Image:
    """Decodes an image in grey.

    Raises:
        BadRowError: It cannot be decoded ("bad_image") or is not laid out as MARVEL's are
            ("unknown_layout").
    """
    try:
        image = open_image(data).convert("L")
    except UnidentifiedImageError as error:
        raise BadRowError("bad_image", "the image is in no format that can be read") from error
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadRowError("bad_image", f"the image cannot be decoded: {error}") from error
    if configuration not in CHOICE_TOP:
        raise BadRowError("unknown_layout", f"no layout is known for configuration {configuration}")
    if image.width < 4 * PANEL or image.height < CHOICE_TOP[configuration] + _INDEX_BOTTOM:
        raise BadRowError(
            "unknown_layout", f"an image of {image.width} x {image.height} has no {configuration} layout of MARVEL"
        )
    return image


def png(image: Image.Image) -> bytes:
    """Returns a PNG; the same pixels give the same bytes."""
    return encoded(image, compress_level=3)
