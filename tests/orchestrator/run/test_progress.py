"""Progress of a run, as shown to people."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.accounting import Accounting
from orchestrator.run.progress import Progress

LONG = [f"reform_a_dataset_of_a_long_name_{number}" for number in range(61)]


def shown(accounting: Accounting, *, terminal: bool) -> list[str]:
    """Output at the end of a run, a terminal's last panel included."""
    console = Console(file=io.StringIO(), width=80, height=40, force_terminal=terminal, color_system=None, markup=False)

    async def show() -> None:
        async with Progress(console, accounting):
            await asyncio.sleep(0.6)  # two looks of the progress, a quarter of a second apart

    asyncio.run(show())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_line_in_a_log_stays_one_line_and_names_the_tasks_begun_last() -> None:
    accounting = Accounting(complete=True)
    for name in LONG:
        accounting.plan(name)
        accounting.settle(name, Outcome.SCORED, 1.0)
    last = shown(accounting, terminal=False)[-1]
    assert last.startswith("61/61  58 tasks before  "), last
    assert [word for word in last.split() if word.startswith("reform_")] == LONG[-3:]


def test_a_terminal_shows_a_dozen_tasks_and_says_how_many_came_before() -> None:
    accounting = Accounting(complete=True)
    for name in LONG:
        accounting.plan(name)
    text = "\n".join(shown(accounting, terminal=True))
    assert "49 tasks before" in text
    assert LONG[48] not in text
    assert LONG[49] in text


def test_twenty_answers_that_nobody_can_read_are_a_warning_with_one_of_them() -> None:
    for unread, scored, warned in ((19, 0, False), (20, 0, True), (20, 20, False), (21, 20, True)):
        accounting = Accounting(complete=True)
        for number in range(unread + scored):
            accounting.plan("marvel")
            accounting.settle("marvel", Outcome.UNPARSED if number < unread else Outcome.SCORED, 0.0)
        for _ in range(40):  # are no answers: they hide nothing
            accounting.plan("marvel")
            accounting.settle("marvel", Outcome.FAILED, 0.0)
        for number in range(unread):
            accounting.unread("marvel", f"marvel/{number}", "It\x1b[31m depends.\n", "B")
        lines = [line for line in shown(accounting, terminal=False) if line.startswith("warning")]
        warning = (
            f"warning: marvel: {unread} of {unread + scored} answers could not be read, so its results say nothing "
        )
        warning += 'about the model; marvel/0 says "It\\x1b[31m depends." where "B" is right; orchestrator prompts '
        assert lines == ([f"{warning}--task marvel shows what is asked"] if warned else [])


def test_nothing_is_left_as_long_as_nobody_knows_how_much() -> None:
    accounting = Accounting(expected=10)
    accounting.plan("marvel")
    assert not any("left" in line for line in shown(accounting, terminal=True))


def test_a_dumb_terminal_gets_the_lines_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    accounting = Accounting(expected=2)
    accounting.plan("marvel")
    accounting.settle("marvel", Outcome.SCORED, 1.0)
    lines = shown(accounting, terminal=True)
    assert len(lines) == 2, "one under way, one at the end"
    assert all(line.startswith("1/~2  ") for line in lines)


def test_few_tasks_are_all_named() -> None:
    accounting = Accounting(expected=10)
    accounting.plan("marvel")
    accounting.plan("voila_wd")
    accounting.settle("marvel", Outcome.UNPARSED, 0.0)
    assert shown(accounting, terminal=False)[-1] == "1/~10  marvel  voila_wd  1 unparsed"
