"""Refusals that checks of requests share."""

from __future__ import annotations

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, Unsupported

Info = model.GetModelInfoResponse


def require(info: Info, capability: model.Capability.ValueType, reason: str, objection: str) -> None:
    """Raises Unsupported, "MODEL `objection`", if the model does not claim a capability."""
    if capability not in info.capabilities:
        raise Unsupported(reason, f"{info.model_name} {objection}")


def check_count(reason: str, things: str, count: int, limit: int) -> None:
    """Raises InvalidRequest if there are more things than the limit."""
    if count > limit:
        raise InvalidRequest(reason, f"{count} {things}, the limit is {limit}", limit=str(limit), value=str(count))
