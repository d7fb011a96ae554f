"""Vocabulary of all services: keys, outcomes, reasons, response formats. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from lyncean.vocabulary.keys import split_repeat as split_repeat
    from lyncean.vocabulary.outcomes import Outcome as Outcome
    from lyncean.vocabulary.tool_results import (
        MAX_IMAGES as MAX_IMAGES,
        MAX_TOOLS as MAX_TOOLS,
        OTHER_REVISION as OTHER_REVISION,
    )

__getattr__ = face(
    __name__,
    {
        "keys": "split_repeat",
        "outcomes": "Outcome",
        "tool_results": "MAX_IMAGES MAX_TOOLS OTHER_REVISION",
    },
)
