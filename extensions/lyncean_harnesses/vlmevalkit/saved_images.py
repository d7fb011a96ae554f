"""Images as VLMEvalKit saves them: its models see the files that it writes from a table's base64.

`ImageBaseDataset.dump_image` decodes an image, drops transparency, and saves it by Pillow's defaults under the name
in `image_path`, mostly as JPEG. Without that column the name is the index with `.png`.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Sequence
from pathlib import Path

from lyncean.media import open_image
from orchestrator.samples import BadRowError

_WITHOUT_ALPHA = ("RGBA", "P", "LA")
_LONGEST = 64 << 10


def saved(images: Sequence[bytes], image_path: str | None) -> list[bytes]:
    """Returns a row's images as VLMEvalKit saves them.

    Args:
        images: The row's images, decoded from base64.
        image_path: The row's cell of that column: a name, or a list of names in Python's syntax; None if missing.

    Raises:
        BadRowError: An image cannot be decoded, or Pillow cannot save the format of its name.
    """
    names = [".png"] * len(images) if image_path is None else _names(image_path)
    return [_saved(data, name) for data, name in zip(images, names, strict=False)]  # VLMEvalKit drops the others, too


def _saved(data: bytes, name: str) -> bytes:
    from PIL import Image

    ending = Path(name).suffix.lower()
    kind = Image.registered_extensions().get(ending)
    if kind is None:
        raise BadRowError("bad_image_path", f"its image_path ends in {ending or 'nothing'}, not as an image's name")
    buffer = io.BytesIO()
    try:
        image = open_image(data)
        if image.mode in _WITHOUT_ALPHA:
            image.convert("RGB").save(buffer, kind)
        else:
            image.save(buffer, kind)
    except Exception as error:
        why = f"an image cannot be saved again as {kind}: {type(error).__name__}: {error}"
        raise BadRowError("bad_image", why) from error
    return buffer.getvalue()


def _names(cell: str) -> list[str]:
    if not (cell.startswith("[") and cell.endswith("]")):
        return [cell]
    try:
        names = ast.literal_eval(cell) if len(cell) <= _LONGEST else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        names = None
    if not isinstance(names, list):
        raise BadRowError("bad_image_path", f"image_path is not a list of names: {cell[:60]}")
    return list(map(str, names))
