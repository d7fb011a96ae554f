"""Media types, images and clips: what they are and whether they are whole. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from lyncean.media.cell import read_samples as read_samples
    from lyncean.media.pictures import open_image as open_image
    from lyncean.media.types import UNKNOWN as UNKNOWN, Kind as Kind, clip_type as clip_type, media_type as media_type

__getattr__ = face(
    __name__,
    {
        "types": "Kind UNKNOWN clip_type media_type",
        "pictures": "open_image",
        "cell": "read_samples",
    },
)
