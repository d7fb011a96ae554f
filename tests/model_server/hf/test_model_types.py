"""The matrix of model types: the page says what was recorded, and (weekly) the code still does what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.family_matrix import PAGE, RECORDED, examined, page

KNOWN: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
COMPARED = ("loads", "passes", "images", "needs_image", "clips", "batching", "method")
"""Stable part of the output; errors and small differences vary with the library and the processor."""


def test_the_page_says_what_was_recorded() -> None:
    assert page(KNOWN, PAGE.read_text()) == PAGE.read_text(), "python -m helpers.family_matrix, in tests/, writes it"


def test_most_types_pass() -> None:
    assert sum(entry.get("passes", False) for entry in KNOWN.values()) >= 60


@pytest.mark.weekly
def test_every_type_of_the_library_is_recorded() -> None:
    pytest.importorskip("torch")
    from helpers import tiny  # noqa: F401  (before the library's classes)
    from helpers.tiny_types import types

    assert sorted(KNOWN) == types()


@pytest.mark.weekly
@pytest.mark.parametrize("kind", [kind for kind, entry in KNOWN.items() if "unbuilt" not in entry])
def test_a_type_does_what_was_recorded(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    again = examined(kind, tmp_path)
    assert {name: again[name] for name in COMPARED} == {name: KNOWN[kind][name] for name in COMPARED}, again
