"""Folders and environment variables of this machine that code of other harnesses may read in its cells."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

_READABLE = ("hub", "datasets", "modules")
"""Folders of Hugging Face's cache; its root has the user's tokens."""

_CERTIFICATES = ("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/usr/share/ca-certificates")
"""Public certificates, which clients of judges always read; never the private keys beside them."""


def folders() -> list[str]:
    """Returns the folders that all cells read: packages, caches and public certificates."""
    for cache in map(Path, _hub()):
        with contextlib.suppress(OSError):  # cells could not read a folder that appears later
            cache.mkdir(parents=True, exist_ok=True)
    return [*_packages(), *_hub(), *_nltk_data().split(os.pathsep), *_CERTIFICATES]


def _packages() -> list[str]:
    """Returns the folders of the scorer's own packages and those of installed packages."""
    specs = (find_spec(name) for name in ("scorer", "lyncean_harnesses"))
    folders = [folder for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    return [*folders, *(folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages"))]


def _cache() -> Path:
    return Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()


def _hub() -> list[str]:
    variables = (os.environ.get(name) for name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE"))
    return [
        *(str(_cache() / name) for name in _READABLE),
        *(str(Path(folder).expanduser()) for folder in variables if folder),
    ]


def _nltk_data() -> str:
    """Returns the folders of NLTK's data."""
    return os.environ.get("NLTK_DATA") or str(Path("~/nltk_data").expanduser())


def environment(folder: str) -> dict[str, str]:
    """Returns the environment variables for code of harnesses; of the scorer's own only those of caches.

    Args:
        folder: Its home directory, until the cell gets its own.
    """
    kept = ["XDG_CACHE_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PATH"]
    kept.append("HF_ALLOW_CODE_EVAL")  # some tasks of lm-evaluation-harness run answers only with it
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser()),
        "HOME": folder,
        "HF_HOME": str(_cache()),
        # The hub's client looks for tokens before it looks into its cache, and may not see the user's.
        "HF_TOKEN_PATH": str(Path(folder, "token")),
        "HF_STORED_TOKENS_PATH": str(Path(folder, "stored_tokens")),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
        "NLTK_DATA": _nltk_data(),
    }
