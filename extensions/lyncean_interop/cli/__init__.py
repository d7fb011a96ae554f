"""Kinds of `orchestrator import`."""
