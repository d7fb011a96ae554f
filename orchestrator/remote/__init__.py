"""Run folders on any fsspec path: a local folder while running, uploaded in whole parts."""

from orchestrator.remote.session import fetched, is_remote, writing
from orchestrator.remote.store import RemoteError

__all__ = ["RemoteError", "fetched", "is_remote", "writing"]
