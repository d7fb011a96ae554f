"""Where what may be deleted at any time is kept from one command to the next."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Returns `$XDG_CACHE_HOME/lyncean`, by default `~/.cache/lyncean`; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lyncean"
