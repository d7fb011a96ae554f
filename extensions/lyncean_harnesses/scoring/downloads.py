"""Files of the hub that the code of a task asks for: noted in its cell, which has no network, and fetched outside.

Only repositories that the task's own files name are fetched: what a model answered cannot choose one, nor a pull
request of a stranger to one, nor a folder of this machine.
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
"""A call of the hub's client as JSON: `call`, and of its arguments those in `_ARGUMENTS`."""

_ARGUMENTS = {
    "hf_hub_download": ("repo_id", "filename", "subfolder", "repo_type", "revision"),
    "snapshot_download": ("repo_id", "repo_type", "revision", "allow_patterns", "ignore_patterns"),
    "load_dataset": ("path", "name", "split", "revision"),
}
_CLIENTS = {"huggingface_hub": ("hf_hub_download", "snapshot_download"), "datasets": ("load_dataset",)}
_LISTS = ("allow_patterns", "ignore_patterns")
_REVISION = re.compile(r"(?![0-9a-f]{7,}$)\w[\w.-]*|refs/convert/\w+", re.ASCII | re.IGNORECASE)
"""A branch or a tag. Commits and `refs/pr` are those of strangers, too: a task's files must name them."""
_FAILS_FOR = 60.0
"""Seconds after which a fetch that failed is tried again for another answer."""
_LONGEST = 500
"""Characters of an argument, and patterns of a list."""
_MOST = 16
"""Calls that are noted for one answer."""

_noted: list[dict[str, Any]] = []


def note_downloads() -> None:
    """Has this process note each call of the hub's clients that may fail for want of a file and of network.

    Harnesses import the clients that their tasks use; what none has imported is left.
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
        given = signature.bind_partial(*arguments, **named).arguments
        kept = {key: _plain(given[key]) for key in _ARGUMENTS[name] if given.get(key) is not None}
        if len(_noted) < _MOST and {"call": name, **kept} not in _noted:
            _noted.append({"call": name, **kept})

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            found = original(*arguments, **named)
        except Exception:
            note(arguments, named)
            raise
        if name == "snapshot_download":
            note(arguments, named)  # without network it returns a folder that may lack files
        return found

    return call


def _plain(value: Any) -> Any:
    return list(map(str, value)) if isinstance(value, list | tuple | set) else str(value)


def noted() -> list[dict[str, Any]]:
    """Returns the calls so far in this process that may lack a file."""
    return list(_noted)


class Downloads:
    """Fetches once what cells of one process ask for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[str, float]] = {}
        self._done: set[str] = set()

    def fetch(self, wanted: Sequence[Any], named: Collection[str]) -> tuple[bool, str]:
        """Fetches into the cache of this machine, unless HF_HUB_OFFLINE forbids it.

        Args:
            wanted: What a cell noted; code that a model's answer chose may have written it.
            named: Repositories that the task's files name.

        Returns:
            Whether a call may succeed now that failed before, and why another does not, "" where none was tried.
        """
        new, reason = False, ""
        for one in wanted[:_MOST]:
            if (call := _checked(one, named)) is None:
                continue
            key = repr(sorted(call.items()))
            with self._lock:  # others that want the same wait for it
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
    """Returns a call that may be made, None of anything else."""
    if not isinstance(wanted, dict) or not all(_is_argument(name, value) for name, value in wanted.items()):
        return None
    call, repository, revision = wanted.get("call"), wanted.get("repo_id", wanted.get("path")), wanted.get("revision")
    if call not in _ARGUMENTS or not wanted.keys() <= {"call", *_ARGUMENTS[call]} or repository not in named:
        return None
    if call == "load_dataset" and Path(wanted["path"]).exists():  # a folder here stands before the hub
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
    """Makes a call and returns why it failed, "" where it did not."""
    owner = next(owner for owner, names in _CLIENTS.items() if call["call"] in names)
    arguments = {name: value for name, value in call.items() if name != "call"}
    try:
        getattr(import_module(owner), call["call"])(**arguments)
    except Exception as error:  # the hub's, the disk's, a repository's own
        return f"the scorer cannot fetch it: {line(error)}"
    return ""
