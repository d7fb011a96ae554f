"""Fixtures of tests/protos."""

from loopback import authority, served

__all__ = ["authority", "served"]
