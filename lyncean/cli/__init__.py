"""Commands, groups and options that the command lines of all services share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.cli.groups import Command, LazyGroup, examples, root
from lyncean.plugins.face import face

if TYPE_CHECKING:
    from lyncean.cli.options import client_options

__all__ = ["Command", "LazyGroup", "client_options", "examples", "root"]

__getattr__ = face(__name__, {"options": "client_options"})
