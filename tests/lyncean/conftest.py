"""Fixtures of tests/protos."""

from helpers.loopback import authority, served

__all__ = ["authority", "served"]
