"""Keys: what they say of rows and repeats."""

from __future__ import annotations

from hypothesis import given, strategies as st

from lyncean.vocabulary.keys import split_repeat
from orchestrator.benchmarks.base import NoSettings
from orchestrator.samples import Variant

PIECES = st.sampled_from(["page", "#1", "#", "%23", "%", ":", "/", "2", "#7:x"])
identifiers = st.lists(PIECES, min_size=1, max_size=3).map("".join) | st.text(min_size=1, max_size=6)


@given(identifier=identifiers, repeat=st.sampled_from([0, 1, 12]))
def test_a_key_says_which_repeat_it_is_whatever_the_row_is_called(identifier: str, repeat: int) -> None:
    key = Variant("task", repeat=repeat, repeats=13, settings=NoSettings()).key(identifier)
    assert split_repeat(key) == (Variant("task", settings=NoSettings()).key(identifier), repeat)


@given(identifier=identifiers)
def test_ids_without_a_number_sign_stand_as_they_are(identifier: str) -> None:
    if "#" not in identifier:
        assert Variant("task", settings=NoSettings()).key(identifier) == f"task/{identifier}"


@given(
    st.lists(st.text(st.sampled_from("#%235a"), min_size=1, max_size=5), unique=True).map(
        lambda ids: [f"#{name}" for name in ids]
    )
)
def test_rows_of_different_names_have_different_keys(names: list[str]) -> None:
    assert len({Variant("task", settings=NoSettings()).key(name) for name in names}) == len(names)
