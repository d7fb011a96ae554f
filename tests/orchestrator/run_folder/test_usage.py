"""Usage of a run's requests, read from its log in memory independent of its length."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from lyncean import columns
from orchestrator.run_folder import usage
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import sealed

LINE = b'{"key":"t/%d","sample":"t/0","turn":"","task":"t","response":{"usage":{"output_tokens":3}},"seconds":0.5}'


def answers_of(run: Path) -> usage.Usage:
    return usage.of_answers(run, Counter(), Counter())["t"]


def test_forty_thousand_lines_are_counted_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 40_000
    (tmp_path / RESPONSES).write_bytes(b"".join(sealed(LINE % at) + b"\n" for at in range(number)))
    monkeypatch.setattr(columns, "_KEPT_BYTES", 1 << 14)
    answers_of(tmp_path)  # what is imported at first use does not count
    tracemalloc.start()
    try:
        counted = answers_of(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (counted.requests, counted.output_tokens) == (number, 3 * number)
    assert peak < 2 * number


def test_of_an_answer_that_was_given_again_the_last_counts(tmp_path: Path) -> None:
    lines = [LINE % 1, LINE % 2, LINE.replace(b":3}", b":50}") % 1]
    (tmp_path / RESPONSES).write_bytes(b"".join(sealed(line) + b"\n" for line in lines))
    counted = answers_of(tmp_path)
    assert (counted.requests, counted.output_tokens) == (2, 53)
