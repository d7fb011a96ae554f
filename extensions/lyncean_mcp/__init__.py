"""Tools of an MCP server behind ToolService."""
