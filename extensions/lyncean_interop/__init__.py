"""Formats of other tools: exports, imports and their logs."""
