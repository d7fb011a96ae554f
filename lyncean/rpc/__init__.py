"""gRPC serving and dialling for all of Lyncean's services; re-exports the public names of its modules."""

# ruff: noqa: F403

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lyncean.rpc.addresses import *
    from lyncean.rpc.channel import *
    from lyncean.rpc.errors import *
    from lyncean.rpc.heap import *
    from lyncean.rpc.limits import *
    from lyncean.rpc.logs import *
    from lyncean.rpc.patience import *
    from lyncean.rpc.security import *
    from lyncean.rpc.serve import *
    from lyncean.rpc.settings import *

_MODULES = ("addresses", "logs", "settings", "security", "limits", "heap", "errors", "patience", "channel", "serve")
"""Modules with public names; the first six do not import gRPC."""


def __getattr__(name: str) -> Any:
    # Imported on first use, so that parsing a command line does not import gRPC.
    if not name.startswith("_") and name not in _MODULES:
        for module in (import_module(f"{__name__}.{part}") for part in _MODULES):
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
