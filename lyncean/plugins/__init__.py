"""Objects by name, and the code that they depend on. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from lyncean.plugins.folders import absolute as absolute, cache_folder as cache_folder
    from lyncean.plugins.own_files import OwnFiles as OwnFiles

__getattr__ = face(
    __name__,
    {
        "folders": "absolute cache_folder",
        "own_files": "OwnFiles",
    },
)
