"""Nothing that a peer says reaches a terminal as a control sequence."""

from __future__ import annotations

import io

from rich.table import Table

from lyncean.errors import UserError, printable
from orchestrator.run.console import Terminal

HOSTILE = "model\x1b]0;owned\x07\x1b[2J\x9b31m\u202eeman\r"


def test_control_characters_are_shown() -> None:
    assert printable("a\tb\nc") == "a\tb\nc"
    assert printable(HOSTILE) == "model\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202eeman\\x0d"
    assert str(UserError(f"{HOSTILE} is down")) == f"{printable(HOSTILE)} is down"


def test_a_table_of_hostile_names_holds_only_our_own_sequences() -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=True, width=120, markup=False)
    table = Table(HOSTILE)
    table.add_row(HOSTILE, style="bold")
    terminal.print(table)
    terminal.print(HOSTILE, style="dim")
    shown = file.getvalue()
    assert "\x1b[1m" in shown
    for sequence in ("\x1b]0;", "\x1b[2J", "\x9b", "\x07", "\u202e"):
        assert sequence not in shown
