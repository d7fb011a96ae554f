"""Run folders on any fsspec path: a local folder while running, uploaded in whole parts."""

from orchestrator.run_folder.remote.session import fetched, is_remote, writing
from orchestrator.run_folder.remote.store import RemoteError

__all__ = ["RemoteError", "fetched", "is_remote", "writing"]
