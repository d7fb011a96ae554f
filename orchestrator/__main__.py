"""Runs the command line: `python -m orchestrator`."""

from orchestrator.cli import main

main()
