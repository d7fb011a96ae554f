"""Images of rows, read from a table's cells as the encoded file's own bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyncean.media.types import UNKNOWN, media_type
from lyncean.plugins import OwnFiles
from orchestrator.data.rows import DataError, OutsideError, Row
from orchestrator.samples import BadRowError

if TYPE_CHECKING:
    from PIL import Image

_LONGEST_PATH = 4096
_URLS = ("http://", "https://")


def image_bytes(value: Any, root: Path, files: OwnFiles | None = None) -> bytes | None:
    """Returns the encoded image that a cell holds, None if it holds none.

    Args:
        value: Bytes, a path, a file of more than 3 KB as base64, or the Hugging Face Image struct {"bytes", "path"}; or
            a list of one of these.
        root: Folder that paths are relative to.
        files: Those that a path may name; None is those in `root`. A foreign table must not make a run send any file
            of this machine to a model.

    Raises:
        DataError: There is a path and the file cannot be read, or it leads out of `root`; or there are several.
    """
    if isinstance(value, list):
        if len(value) > 1:
            raise DataError(f"a row holds {len(value)} images in one column: give each a column of its own")
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("path") if value.get("bytes") is None else value["bytes"]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise DataError(f"an image column holds {type(value).__name__}, not bytes or a path")
    if value.startswith(_URLS):
        raise DataError(f"image {value} is a URL, and images are read from files: download it, and give its path")
    if len(value) > _LONGEST_PATH:
        return _of_base64(value)
    try:
        path = (root / value).resolve()
        inside = files.resolved(path) if files else any(path.is_relative_to(home) for home in _homes(root.resolve()))
        if not inside:
            raise OutsideError(f"image {value} leads out of {root}; image paths must stay inside the data's folder")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"image {root / value} cannot be read: {why}") from error
    if not data:
        raise DataError(f"image {root / value} is an empty file")
    return data


def _of_base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if media_type(data) == UNKNOWN:
        problem = "is neither a path nor an image as base64: put the image into a file"
        raise DataError(f"image {text[:40]}... of {len(text):,} characters {problem}")
    return data


def _homes(root: Path) -> Iterator[Path]:
    """Yields the folders that images of a table may lie in: its own, and the hub cache's blobs of its data set."""
    yield root
    for parent in root.parents:
        if parent.name == "snapshots":
            yield parent.parent / "blobs"


def encoded(image: Image.Image, kind: str = "PNG", **options: int) -> bytes:
    """Returns an image as a file; the same pixels give the same bytes."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def row_image(row: Row, column: str = "image", kind: str = "image") -> bytes:
    """Returns a row's image, audio or video for a call.

    Raises:
        BadRowError: There is none ("no_image"), it cannot be read ("unreadable_image") or lies outside the data's
            folder ("outside_data"): the sample is rejected and the run goes on.
    """
    try:
        data = row.image(column)
    except DataError as error:
        raise unreadable(error, kind) from error
    if not data:
        raise BadRowError(f"no_{kind}", f"the row has no {kind} in column {column}")
    return data


def unreadable(error: DataError, kind: str = "image") -> BadRowError:
    """Returns why a row is rejected whose image, audio or video cannot be used."""
    return BadRowError("outside_data" if isinstance(error, OutsideError) else f"unreadable_{kind}", str(error))
