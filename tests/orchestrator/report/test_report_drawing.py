"""The report's drawings: scales that end at round numbers, words that stay words."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from orchestrator.report.drawing import ACCENT, Row, axis, box, cells, clipped, dot, plane, rows, width_of

NASTY = '</text><script>"&'


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.83], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.05], ["0.00", "0.01", "0.02", "0.03", "0.04", "0.05"]),
        ([12_345.0], ["0", "5,000", "10,000", "15,000"]),
        ([-0.31, 0.4], ["-0.4", "-0.2", "0.0", "0.2", "0.4"]),
        ([0.0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_ticks_are_round(values: list[float], ticks: list[str]) -> None:
    assert [words for _, words in axis(values, 0, 300).ticks()] == ticks


@given(st.lists(st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9), min_size=1))
def test_every_value_is_on_the_scale(values: list[float]) -> None:
    scale = axis(values, 0, 300)
    assert all(-1e-6 <= scale.at(value) <= 300 + 1e-6 for value in (0.0, *values))
    assert 2 <= len(scale.ticks()) <= 8


def test_a_scale_may_go_up() -> None:
    scale = axis([], 200, 0, limits=(0, 100))
    assert [scale.at(value) for value in (0, 25, 100)] == [200, 150, 0]


def test_long_names_are_cut() -> None:
    assert clipped("avr", 220) == "avr"
    cut = clipped("a very long name of a replica in a cluster far away, with its port:50051", 220)
    assert cut.endswith("…")
    assert 200 < width_of(cut) <= 220
    assert width_of("題") > width_of("a") > width_of("i")


def test_words_stay_words() -> None:
    scale = axis([1.0], 0, 300)
    drawings = (
        rows(
            NASTY, [Row(NASTY, NASTY, [dot(1, 0, 2, ACCENT)], (NASTY, NASTY), "#" + NASTY)], scale, step=20, unit=NASTY
        ),
        cells(NASTY, [NASTY], [NASTY], [(0, 0, box(0, 0, 9, 9, ACCENT))], (60, 30)),
        plane(NASTY, scale, axis([1.0], 100, 0), [Markup()], units=(NASTY, NASTY), key=[(NASTY, ACCENT)]),
    )
    for drawing in drawings:
        tree = ElementTree.fromstring(drawing)  # noqa: S314 - ours
        assert tree.attrib["aria-label"] == NASTY
        assert NASTY in {node.text for node in tree.iter()}
        assert not re.search("<script", drawing)


def test_what_a_mark_stands_for_is_its_title() -> None:
    found = [Row("avr", "avr: 40.0, n=5", [], href="#label.kind=avr"), Row("fine", "fine: 20.0, n=5", [])]
    tree = ElementTree.fromstring(rows("accuracy", found, axis([1.0], 0, 300), step=20))  # noqa: S314 - ours
    assert {(node.get("href"), node[0].text) for node in tree.iter() if len(node) and node[0].tag == "title"} == {
        ("#label.kind=avr", "avr: 40.0, n=5"),
        (None, "fine: 20.0, n=5"),
    }
