"""Serves tools that models call behind lyncean.tool.v1: `tool-server serve FILE.py`."""
