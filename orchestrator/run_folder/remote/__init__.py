"""Run folders at a URL: a local folder while running, uploaded in whole parts."""

from orchestrator.run_folder.remote.session import fetched, writing
from orchestrator.run_folder.remote.store import RemoteError

__all__ = ["RemoteError", "fetched", "writing"]
