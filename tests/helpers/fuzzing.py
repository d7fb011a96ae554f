"""Input that is mostly what it should be, and what may come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import settings, strategies as st

from orchestrator.data.rows import DataError

T = TypeVar("T")
FEW = settings(max_examples=80)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def mixed(**wanted: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose fields are mostly what they should be."""
    return st.fixed_dictionaries({}, optional={name: wish | trees for name, wish in wanted.items()})


def taken(work: Callable[[], T], refusal: type[Exception] = DataError) -> T | None:
    """Returns what the work returns, None where it refuses its input: that of a file in one line."""
    try:
        return work()
    except refusal as error:
        text = str(error)
    assert refusal is not DataError or len(text.splitlines()) == 1, text
    return None
