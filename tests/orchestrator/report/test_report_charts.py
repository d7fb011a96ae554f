"""The report's charts: scales that end at round numbers, words that stay words."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.report_runs import Writer, sliced
from hypothesis import given, strategies as st

from orchestrator.report import plots, write_report
from orchestrator.report.charts import axis, samples_link
from orchestrator.report.plots import Pairs, throughput

NASTY = '</text></table><script>"&'


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
    assert [text for _, text in axis(values).ticks] == ticks


@given(st.lists(st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9), min_size=1))
def test_every_value_is_on_the_scale(values: list[float]) -> None:
    scale = axis(values)
    assert all(0 <= scale.at(value) <= 100 for value in (0.0, *values))
    assert 2 <= len(scale.ticks) <= 8


def test_labels_of_a_data_set_stay_words(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(20):
        labels = {"pattern": NASTY if number % 2 else "b", "configuration": "xy"[number // 10]}
        score = float(number % 4 == 0)
        writer.item(f"marvel/{number}", answer="1", score=score, labels=labels, replica=NASTY + str(number % 2))
    metrics = sliced("AVR", writer.verdicts, ("pattern",), ("pattern", "configuration"))
    page = write_report(writer.close({"marvel": metrics})).read_text(encoding="utf-8")
    drawings = [part.partition("</figure>")[0] for part in page.split("<figure")[1:]]
    trees = [ElementTree.fromstring(f"<figure{drawing}</figure>") for drawing in drawings]  # noqa: S314 - ours
    rows, heat_map = (next(tree for tree in trees if tree.get("class") == kind) for kind in ("rows", "heat_map"))
    for tree in (rows, heat_map):
        assert NASTY in {text.strip() for text in tree.itertext()}
        assert any(NASTY in node.get("title", "") for node in tree.iter())
    assert not any(node.tag == "script" for tree in trees for node in tree.iter())


def test_throughput_leaves_out_the_pause_between_stop_and_resume() -> None:
    def calls(*starts: float) -> Any:
        return Pairs((1.0 + start, 1.0) for start in starts)

    steady = throughput({"a": calls(*range(0, 200, 2)), "b": calls(*range(1, 200, 2))})
    hour = 3600.0 * np.array([number >= 50 for number in range(100)])
    stopped = throughput({"a": calls(*(np.arange(0, 200, 2) + hour)), "b": calls(*(np.arange(1, 200, 2) + hour))})
    assert stopped.layout == steady.layout
    assert stopped.note == f"{steady.note} Pauses without calls (60 minutes) are left out."


@given(st.data())
def test_answers_are_counted_where_they_stand_without_the_pauses_before_them(data: st.DataObject) -> None:
    call = st.tuples(st.integers(0, 1000), st.integers(0, 200))
    replicas = [data.draw(st.lists(call, min_size=1, max_size=9)) for _ in range(2)]
    every = sorted((start, start + seconds) for calls in replicas for start, seconds in calls if start)
    pauses, busy = [], every[0][1] if every else 0
    for start, end in every:
        if start - busy > 60.0:
            pauses.append((busy, start))
        busy = max(busy, end)
    computed = plots._Pauses.of([Pairs(calls) for calls in replicas])
    if len(every) < 2:
        assert computed is None
        return
    assert computed.calls == len(every)
    assert computed.seconds == sum(end - begin for begin, end in pauses)
    edges = np.linspace(0.0, 1200.0, 13)
    for calls in replicas:
        ends = [
            start + seconds - sum(end - begin for begin, end in pauses if end <= start)
            for start, seconds in calls
            if start
        ]
        assert computed.answers(Pairs(calls), edges).tolist() == np.histogram(ends, edges)[0].tolist()


def test_a_slice_by_calls_leads_to_the_filter_of_calls() -> None:
    assert samples_link("t", {"calls": "10-15", "topic": "a b"}) == "#task=t&calls=10-15&label.topic=a+b"
