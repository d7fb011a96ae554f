"""The base of all errors that a user can correct."""

from __future__ import annotations


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
        super().__init__(f"{message}: {fix}" if fix else message)
        self.fix = fix
