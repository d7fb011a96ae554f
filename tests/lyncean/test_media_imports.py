"""The files of lyncean/media import each other in one direction, also within functions."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import lyncean.media

_PACKAGE = "lyncean.media"


def _imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_PACKAGE}."):
            names.add(str(node.module).removeprefix(f"{_PACKAGE}."))
    return names


def test_there_is_no_circle() -> None:
    files = [file for file in Path(str(lyncean.media.__file__)).parent.glob("*.py") if file.stem != "__init__"]
    order = TopologicalSorter({file.stem: _imported(file) for file in files}).static_order()
    assert {"cell", "pictures", "rare_pictures"} <= set(order)
