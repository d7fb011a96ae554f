"""The command `tool-server`: one file per subcommand, imported on use."""

from __future__ import annotations

from lyncean.cli import root

COMMANDS = {
    "serve": ("tool_server.cli.serve", "Serve the tools of a Python file."),
    "search": ("tool_server.cli.search", "Serve visual search by a detector."),
    "mcp": ("lyncean_mcp.cli", "Serve the tools of an MCP server."),
    "sandbox": ("tool_server.cli.sandbox", "Serve a tool that runs a model's Python code, closed in."),
}
"""Subcommand -> its module, and its line in `--help`; others come from the entry points `lyncean.tool_servers`."""


@root(COMMANDS, noun="tool_server")
def main() -> None:
    """Serve tools that models call."""
