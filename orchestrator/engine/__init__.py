"""The run engine: nothing lost, nothing twice. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.engine.ledger import Ledger as Ledger
    from orchestrator.engine.options import Options as Options
    from orchestrator.engine.pool import Pool as Pool
    from orchestrator.engine.resolve import (
        Endpoint as Endpoint,
        parse_endpoints as parse_endpoints,
        resolve as resolve_endpoint,
    )
    from orchestrator.engine.run import Engine as Engine
    from orchestrator.engine.scoring import ScorerClient as ScorerClient

__all__ = ["resolve_endpoint"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "ledger": "Ledger",
        "options": "Options",
        "pool": "Pool",
        "resolve": "Endpoint parse_endpoints resolve:resolve_endpoint",
        "run": "Engine",
        "scoring": "ScorerClient",
    },
)
