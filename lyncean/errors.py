"""The base of all errors that a user can correct."""

from __future__ import annotations

import re

from lyncean.rpc.addresses import without_passwords

_CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\t\n"
}
"""C0 and C1 controls, and those that turn the direction of text."""
_UNPRINTED = re.compile(f"[{re.escape(''.join(map(chr, _CONTROLS)))}]")


def printable(text: str) -> str:
    """Returns text that a terminal shows and does not obey: control characters are escaped."""
    return text.translate(_CONTROLS)


def printable_json(text: str) -> str:
    """Returns the same JSON with every control character escaped as JSON escapes them."""
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class UserError(Exception):
    """An error whose message is one line for people: what is wrong, where, and the fix.

    The Python API raises it as it is; a command prints the line and ends with `exit_code` (`lyncean.cli.groups`).
    It escapes control characters and hides the passwords of URLs, which errors of libraries like to quote.

    Args:
        message: What is wrong, and where.
        fix: What to do about it; follows the message after a colon. A message may also contain its fix.

    Attributes:
        exit_code: 1 a defect, 2 usage or configuration, 3 incomplete: the same command resumes.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, fix: str = "") -> None:
        super().__init__(printable(without_passwords(f"{message}: {fix}" if fix else message)))
        self.fix = fix
