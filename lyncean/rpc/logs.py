"""Logs of the servers, as their terminals show them."""

from __future__ import annotations

import logging

from lyncean.errors import printable
from lyncean.rpc.addresses import without_passwords


class _Shown(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(without_passwords(super().format(record)))


def log_to_stderr(form: str) -> None:
    """Logs to stderr, with passwords of URLs hidden and control characters as what they are.

    Args:
        form: A line, as `logging.Formatter` takes it.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Shown(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
