"""The programs that start Rye as their MCP server: their settings, and the entry in these."""
