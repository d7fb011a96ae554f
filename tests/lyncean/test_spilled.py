"""Columns on disk, against lists."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lyncean import columns as spilled
from lyncean.columns import Column, SpillError, mapped


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


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.booleans())
def test_a_number_that_stands_twice_is_found(values: list[int], twice: bool) -> None:
    values += values[:1] * twice
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled, "_KEPT_BYTES", 32)
        column = Column("q")
        column.extend(values)
        assert column.repeats() == (len(set(values)) < len(values))


def test_a_column_is_read_as_another_kind() -> None:
    column = Column("B", "S4")
    column.add(b"abcdxyz\0")
    assert column.read().tolist() == [b"abcd", b"xyz"]
    assert len(column) == 2


def test_a_large_array_is_the_same_from_its_file() -> None:
    values = np.arange(200_000)
    array = mapped(values)
    assert isinstance(array, np.memmap)
    assert np.array_equal(array, values)
    assert mapped(values[:5]).tolist() == [0, 1, 2, 3, 4]


@pytest.fixture
def small_files() -> Iterator[None]:
    """Has the system write 700,000 bytes of a file, as much of a larger write too, and refuse the rest."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_column_that_is_written_in_part_is_an_error() -> None:
    with pytest.raises(SpillError, match=r"File too large: .* \$TMPDIR"):
        Column("I").extend(range(200_000))


@pytest.mark.usefixtures("small_files")
def test_an_array_that_is_written_in_part_is_an_error() -> None:
    with pytest.raises(SpillError, match=r"200000 requested and \d+ written: .* \$TMPDIR"):
        mapped(np.arange(200_000))
