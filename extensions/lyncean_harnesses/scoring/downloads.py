"""Fetches hub files for the code of tasks: the cell, which has no network, records the calls; the scorer makes them.

Only repositories that the task's own files name are fetched: an answer cannot choose another repository, a
stranger's pull request to one, or a folder of this machine.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from lyncean_harnesses.library.foreign import line

Wanted = Mapping[str, Any]
"""A call of the hub's client as JSON: `call`, and its arguments listed in `_ARGUMENTS`."""

_ARGUMENTS = {
    "hf_hub_download": ("repo_id", "filename", "subfolder", "repo_type", "revision"),
    "snapshot_download": ("repo_id", "repo_type", "revision", "allow_patterns", "ignore_patterns"),
    "load_dataset": ("path", "name", "split", "revision"),
}
_CLIENTS = {"huggingface_hub": ("hf_hub_download", "snapshot_download"), "datasets": ("load_dataset",)}
_LISTS = ("allow_patterns", "ignore_patterns")
_REVISION = re.compile(r"(?![0-9a-f]{7,}$)\w[\w.-]*|refs/convert/\w+", re.ASCII | re.IGNORECASE)
"""A branch or a tag. Commits and `refs/pr` may be a stranger's, so a task's files must name them."""
_FAILS_FOR = 60.0
"""Seconds until a failed fetch is retried for another answer."""
_LONGEST = 500
"""Maximum characters of an argument, and patterns of a list."""
_MOST = 16
"""Maximum number of calls recorded for one answer."""

_noted: list[dict[str, Any]] = []


def note_downloads() -> None:
    """Makes this process record the calls of the hub's clients that may lack a file and the network.

    Patches only imported clients, since harnesses import the clients that their tasks use.
    """
    for owner, names in _CLIENTS.items():
        for name in names if owner in sys.modules else ():
            original = getattr(sys.modules[owner], name)
            noting = _noting(name, original)
            for module in list(sys.modules.values()):
                if module is sys.modules[owner] or getattr(module, "__dict__", {}).get(name) is original:
                    setattr(module, name, noting)


def _noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def note(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        bound = signature.bind_partial(*arguments, **named).arguments
        kept = {key: _plain(bound[key]) for key in _ARGUMENTS[name] if bound.get(key) is not None}
        if len(_noted) < _MOST and {"call": name, **kept} not in _noted:
            _noted.append({"call": name, **kept})

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            result = original(*arguments, **named)
        except Exception:
            note(arguments, named)
            raise
        if name == "snapshot_download":
            note(arguments, named)  # without network it may return an incomplete folder
        return result

    return call


def _plain(value: Any) -> Any:
    return list(map(str, value)) if isinstance(value, list | tuple | set) else str(value)


def noted() -> list[dict[str, Any]]:
    """Returns the recorded calls of this process that may lack a file."""
    return list(_noted)


class Downloads:
    """Fetches the files that cells of one process ask for, each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[str, float]] = {}
        self._done: set[str] = set()

    def fetch(self, wanted: Sequence[Any], named: Collection[str]) -> tuple[bool, str]:
        """Fetches into the cache of this machine, unless HF_HUB_OFFLINE forbids it.

        Args:
            wanted: Calls that a cell recorded; code in a model's answer may have written them.
            named: Repositories that the task's files name.

        Returns:
            Whether a failed call may succeed now, and the reason why another does not, "" if none was tried.
        """
        new, reason = False, ""
        for one in wanted[:_MOST]:
            if (call := _checked(one, named)) is None:
                continue
            key = repr(sorted(call.items()))
            with self._lock:  # other threads wait for the same files
                problem, until = self._failed.get(key, ("", 0.0))
                if key not in self._done and time.monotonic() >= until:
                    problem = _offline() or _fetched(call)
                    if problem:
                        self._failed[key] = problem, time.monotonic() + _FAILS_FOR
                    else:
                        self._done.add(key)
                        new = True
                reason = reason or problem
        return new, reason


def _checked(wanted: Any, named: Collection[str]) -> dict[str, Any] | None:
    """Returns a call if it is allowed, else None."""
    if not isinstance(wanted, dict) or not all(_is_argument(name, value) for name, value in wanted.items()):
        return None
    call, repository, revision = wanted.get("call"), wanted.get("repo_id", wanted.get("path")), wanted.get("revision")
    if call not in _ARGUMENTS or not wanted.keys() <= {"call", *_ARGUMENTS[call]} or repository not in named:
        return None
    if call == "load_dataset" and Path(wanted["path"]).exists():  # a local folder takes precedence over the hub
        return None
    return wanted if revision is None or revision in named or _REVISION.fullmatch(revision) else None


def _is_argument(name: str, value: Any) -> bool:
    if isinstance(value, list) and name in _LISTS:
        return len(value) <= _LONGEST and all(_is_argument("", one) for one in value)
    return isinstance(value, str) and len(value) <= _LONGEST and ".." not in value.replace("\\", "/").split("/")


def _offline() -> str:
    on = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    return "the scorer may not fetch it: HF_HUB_OFFLINE is set" if on else ""


def _fetched(call: Mapping[str, Any]) -> str:
    """Makes a call; returns the reason of a failure, "" on success."""
    owner = next(owner for owner, names in _CLIENTS.items() if call["call"] in names)
    arguments = {name: value for name, value in call.items() if name != "call"}
    try:
        getattr(import_module(owner), call["call"])(**arguments)
    except Exception as error:  # the hub's, the disk's, a repository's own
        return f"the scorer cannot fetch it: {line(error)}"
    return ""
