"""Benchmarks, data, the run engine, the run log and reports; `from orchestrator import evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import Results, evaluate

__all__ = ["Results", "evaluate"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: `orchestrator --help` needs none of it.
    if name in __all__:
        from orchestrator import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
