"""Tools of an MCP server, served as a ToolService."""
