"""Runs the command line: `python -m model_server`."""

from model_server.cli import main

main()
