"""Benchmarks, data, the run engine, the run log and reports; `from orchestrator import evaluate`.

The public names are those of `__all__`: functions, results and every error that they raise.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lyncean.errors import UserError
    from orchestrator.api import Comparison, Item, MetricResult, Results, evaluate, load
    from orchestrator.data.rows import DataError
    from orchestrator.errors import ConfigError, EngineError, IncompleteError, LimitError
    from orchestrator.extensions import Format
    from orchestrator.run_folder.errors import RunBusyError, RunLogError
    from orchestrator.run_folder.manifest import ManifestError
    from orchestrator.series import Series

__all__ = [
    "Comparison",
    "ConfigError",
    "DataError",
    "EngineError",
    "Format",
    "IncompleteError",
    "Item",
    "LimitError",
    "ManifestError",
    "MetricResult",
    "Results",
    "RunBusyError",
    "RunLogError",
    "Series",
    "UserError",
    "evaluate",
    "load",
]

_ERRORS = {
    "UserError": "lyncean.errors",
    "DataError": "orchestrator.data.rows",
    "Format": "orchestrator.extensions",
    "ManifestError": "orchestrator.run_folder.manifest",
    "RunBusyError": "orchestrator.run_folder.errors",
    "RunLogError": "orchestrator.run_folder.errors",
    "Series": "orchestrator.series",
    **dict.fromkeys(("ConfigError", "EngineError", "IncompleteError", "LimitError"), "orchestrator.errors"),
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: `orchestrator --help` needs none of it.
    if name in __all__:
        return getattr(import_module(_ERRORS.get(name, "orchestrator.api")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
