"""The two ways in which a check ends early."""

from __future__ import annotations


class Broken(Exception):
    """The server does not hold to the contract; the message says what it did."""


class NotApplicable(Exception):
    """The check has nothing to judge in this server; the message says why."""


def wants(condition: bool, otherwise: str) -> None:
    """Raises `Broken` unless a condition holds."""
    if not condition:
        raise Broken(otherwise)


def applies(condition: bool, otherwise: str) -> None:
    """Raises `NotApplicable` unless a condition holds."""
    if not condition:
        raise NotApplicable(otherwise)
