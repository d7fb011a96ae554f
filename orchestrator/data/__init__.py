"""Data in every form that `--data` takes, as rows. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.data.arrow import is_saved as is_saved
    from orchestrator.data.digest import digest_files as digest_files
    from orchestrator.data.hub import HUB_ID as HUB_ID, cause as cause
    from orchestrator.data.images import image_bytes as image_bytes, unreadable as unreadable
    from orchestrator.data.rows import DataError as DataError, Row as Row, RowSource as RowSource
    from orchestrator.data.table import Table as Table
    from orchestrator.data.vlmevalkit import open_vlmevalkit as open_vlmevalkit
    from orchestrator.data.yaml_file import closest as closest

__getattr__ = face(
    __name__,
    {
        "rows": "DataError Row RowSource",
        "table": "Table",
        "digest": "digest_files",
        "arrow": "is_saved",
        "hub": "HUB_ID cause",
        "images": "image_bytes unreadable",
        "vlmevalkit": "open_vlmevalkit",
        "yaml_file": "closest",
    },
)
