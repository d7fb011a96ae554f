"""Names in narrow columns of a terminal."""

from __future__ import annotations

from hypothesis import given, strategies as st
from rich.console import Console

from orchestrator.names import Name


def wrapped(name: str, width: int) -> list[str]:
    return [line.plain for line in Name(name).wrap(Console(), width)]


def test_a_name_breaks_after_what_parts_its_words() -> None:
    assert wrapped("lm-eval:mmlu_pro_plus", 12) == ["lm-eval:", "mmlu_pro_", "plus"]
    assert wrapped("accuracy,none", 13) == ["accuracy,none"]
    assert wrapped("unbreakable_x", 5) == ["unbre", "akabl", "e_x"]
    assert wrapped("task\nmetric_of_it", 40) == ["task", "metric_of_it"]


@given(st.text("ab_:,/.-\n", max_size=40), st.integers(1, 12))
def test_no_sign_is_lost_and_no_line_too_long(name: str, width: int) -> None:
    lines = wrapped(name, width)
    assert "".join(lines) == name.replace("\n", "")
    assert all(len(line) <= width for line in lines)
