"""Columns on disk, against lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.run_folder import spilled
from orchestrator.run_folder.spilled import Column, mapped


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=9)))
def test_a_column_holds_what_was_added(parts: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled, "_KEPT_BYTES", 32)
        column, plain = Column("I"), []
        for part in parts:
            column.extend(part)
            plain += part
            assert column.read().tolist() == plain
            column.append(7)
            plain.append(7)
            column.settle()
        assert len(column) == len(plain)
        assert column.read().tolist() == plain


def test_a_column_is_read_as_another_kind() -> None:
    column = Column("B", "S4")
    column.add(b"abcdxyz\0")
    assert column.read().tolist() == [b"abcd", b"xyz"]
    assert len(column) == 2


def test_a_large_array_is_the_same_from_its_file() -> None:
    values = np.arange(200_000)
    found = mapped(values)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, values)
    assert mapped(values[:5]).tolist() == [0, 1, 2, 3, 4]
