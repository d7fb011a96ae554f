"""Columns of a row that a task's scoring function reads, by its syntax tree: lmms-eval keeps media from it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

_DEPTH = 3
"""Calls from a scoring function to others of its module that are followed."""


def columns_read(function: Callable[..., Any]) -> set[str]:
    """Returns the keys that a function, and those of its module that it calls, take of any `name[key]`."""
    found: set[str] = set()
    for each in functions_reached(inspect.unwrap(function)):
        with contextlib.suppress(OSError, SyntaxError, TypeError):  # without a source it reads nothing that is known
            found.update(_keys(ast.parse(textwrap.dedent(inspect.getsource(each)))))
    return found


def functions_reached(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yields a function and those that it calls by a name of their module, to a depth of three."""
    seen, wanted = set(), [(function, _DEPTH)]
    while wanted:
        each, left = wanted.pop()
        code = getattr(each, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        yield each
        names = code.co_names if left else ()
        others = (each.__globals__.get(name) for name in names)
        wanted += [(other, left - 1) for other in others if inspect.isfunction(other)]


def _keys(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            key = node.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value
