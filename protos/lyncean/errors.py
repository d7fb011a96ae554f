"""The base of all errors that a user can correct."""

from __future__ import annotations

_CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\t\n"
}
"""C0 and C1 controls, and those that turn the direction of text."""


def printable(text: str) -> str:
    """Returns text that a terminal shows and does not obey: control characters are escaped."""
    return text.translate(_CONTROLS)


class UserError(Exception):
    """An error whose message is one line for people: what is wrong, where, and the fix.

    The Python API raises it as it is; a command prints the line and ends with `exit_code` (`lyncean.cli.groups`).

    Args:
        message: What is wrong, and where.
        fix: What to do about it; follows the message after a colon. A message may also contain its fix.

    Attributes:
        exit_code: 1 a defect, 2 usage or configuration, 3 incomplete: the same command resumes.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, fix: str = "") -> None:
        super().__init__(printable(f"{message}: {fix}" if fix else message))
        self.fix = fix
