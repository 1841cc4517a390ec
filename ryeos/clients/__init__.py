"""The programs that start Rye as their MCP server: where their settings are, and the entry there."""
