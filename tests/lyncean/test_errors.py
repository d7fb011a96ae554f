"""The tree of errors is drawn as it is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from lyncean import errors

CORE = ("lyncean", "orchestrator", "scorer", "model_server", "tool_server")


def drawn() -> Iterator[tuple[str, str, int]]:
    """Yields each error of the drawing with the one above it and its exit code."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"((?:[| ]   )*(?:[|`]-- )?)(\w+) +(\d)  ", line):
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            yield match[2], above[depth - 1] if depth else "", int(match[3])


def known(kind: type[errors.UserError] = errors.UserError) -> Iterator[tuple[str, str, int]]:
    """Yields the errors of the core; one of several bases stands below the first."""
    base = kind.__bases__[0].__name__ if kind is not errors.UserError else ""
    yield kind.__name__, base, kind.exit_code
    for sub in kind.__subclasses__():
        if sub.__module__.partition(".")[0] in CORE and sub.__bases__[0] is kind:
            yield from known(sub)


def test_the_drawing_is_the_tree() -> None:
    pytest.importorskip("torch")
    for root in CORE:
        for module in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    assert sorted(drawn()) == sorted(known())
