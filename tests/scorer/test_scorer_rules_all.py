"""The duties of every rule towards the service, for any input."""

from __future__ import annotations

import pytest
from helpers.rule_duties import REGISTRY, SETS, gives_a_verdict_or_names_a_defect, refuses_an_unknown_parameter, texts
from hypothesis import given, settings, strategies as st

from scorer.rule import Rule
from scorer.rules import MODULES

OURS = [name for name, module in MODULES.items() if module.startswith("scorer.")]
PLAIN = [name for name in OURS if isinstance(REGISTRY.get(name), Rule) and "text" in REGISTRY.get(name).reads]


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=80)
@given(text=texts, pair=st.sampled_from(SETS))
def test_a_verdict_or_a_named_defect_and_nothing_else(name: str, text: str, pair: tuple[list[str], list[str]]) -> None:
    gives_a_verdict_or_names_a_defect(name, text, pair)


@pytest.mark.parametrize("name", PLAIN)
def test_an_unknown_parameter_is_refused(name: str) -> None:
    refuses_an_unknown_parameter(name)
