"""Cells: child processes for foreign code and files, locked down by the kernel before they see any of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from lyncean.cell.cell import (
        Bounds as Bounds,
        Cell as Cell,
        CellError as CellError,
        StartError as StartError,
        closes as closes,
        holding as holding,
    )
    from lyncean.cell.child import limit_of as limit_of
    from lyncean.cell.closing import LAYERS as LAYERS, PROCESS as PROCESS, Fence as Fence
    from lyncean.cell.zygote import Zygote as Zygote

__getattr__ = face(
    __name__,
    {
        "cell": "Bounds Cell CellError StartError closes holding",
        "child": "limit_of",
        "closing": "LAYERS PROCESS Fence",
        "zygote": "Zygote",
    },
)
