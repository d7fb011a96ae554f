"""Only `run_folder` knows the files of a run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import orchestrator

ROOT = Path(orchestrator.__file__).parent
FILES = ("responses.jsonl", "verdicts.jsonl", "manifest.json", ".planned")
OUTSIDE = sorted(path for path in ROOT.rglob("*.py") if "run_folder" not in path.relative_to(ROOT).parts)


def texts(tree: ast.AST) -> Iterator[str]:
    """Yields a module's strings and bytes, docstrings left out."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_room_names_a_file_of_a_run_or_reads_a_line(path: Path) -> None:
    literals = list(texts(ast.parse(path.read_text())))
    assert not [text for text in literals for file in FILES if text == file or text.endswith(f"/{file}")]
    assert not [text for text in literals if '"key":' in text or '{"outcome"' in text or '"outcome":"' in text]
