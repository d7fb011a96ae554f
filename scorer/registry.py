"""Rules and metrics by name."""

from __future__ import annotations

from lyncean.plugins import registry
from lyncean.plugins.registry import NAME, PluginError, T
from scorer.errors import RequestError

__all__ = ["NAME", "PluginError", "Registry"]


class Registry(registry.Registry[T]):
    """Rules or metrics by name; an unknown name is a defect of the request."""

    def unknown(self, name: str) -> RequestError:
        """Returns the error of an unknown name."""
        return RequestError(str(super().unknown(name)), f"unknown_{self.noun}")
