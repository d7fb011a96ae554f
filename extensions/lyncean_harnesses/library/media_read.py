"""Finds by syntax tree the columns that a task's scoring function reads, since lmms-eval withholds media from it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

_DEPTH = 3
"""Depth to which calls of a scoring function within its module are followed."""


def columns_read(function: Callable[..., Any]) -> set[str]:
    """Returns the keys of all `name[key]` in a function and in those of its module that it calls."""
    columns: set[str] = set()
    for called in functions_reached(inspect.unwrap(function)):
        with contextlib.suppress(OSError, SyntaxError, TypeError):  # nothing is known of a function without source
            columns.update(_keys(ast.parse(textwrap.dedent(inspect.getsource(called)))))
    return columns


def functions_reached(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yields a function and those that it calls by a name of their module, to a depth of three."""
    seen, wanted = set(), [(function, _DEPTH)]
    while wanted:
        current, left = wanted.pop()
        code = getattr(current, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        yield current
        names = code.co_names if left else ()
        others = (current.__globals__.get(name) for name in names)
        wanted += [(other, left - 1) for other in others if inspect.isfunction(other)]


def _keys(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            key = node.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value
