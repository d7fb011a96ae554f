"""Runs the command line: `python -m tool_server`."""

from tool_server.cli import main

main()
