"""The run engine: nothing lost, nothing twice."""

from lyncean.budget import Budget
from orchestrator.engine.pool import Pool
from orchestrator.engine.resolve import Endpoint, parse_endpoints
from orchestrator.engine.run import Engine, Options
from orchestrator.engine.scoring import ScorerClient
from orchestrator.errors import ConfigError, EngineError, IncompleteError

__all__ = [
    "Budget",
    "ConfigError",
    "Endpoint",
    "Engine",
    "EngineError",
    "IncompleteError",
    "Options",
    "Pool",
    "ScorerClient",
    "parse_endpoints",
]
