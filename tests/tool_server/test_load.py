"""Files of tools that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lyncean.errors import UserError
from tool_server.load import load


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit(2)", "is a program, not a file of tools: it ends while it is imported"),
        ("1 / 0", "cannot be run: ZeroDivisionError: division by zero"),
        ("", "has 0 subclasses of tool_server.kit.Tools"),
    ],
)
def test_a_file_without_tools_is_told_what_it_is(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "server.py"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        load(file)
